"""How reports write numbers and times: as many digits as mean something."""

from __future__ import annotations

from brokerproof import clock

NOTHING = "–"


def format_value(value: float | None, unit: str = "") -> str:
    """A measured value: whole numbers whole, others with three digits that count; `–` where there is none."""
    if value is None:
        return NOTHING
    text = f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


def format_count(count: int | None) -> str:
    """A count with separators; `–` where nothing was counted."""
    return NOTHING if count is None else f"{count:,}"


def format_seconds(seconds: float | None) -> str:
    """A length of time as people say it: `0.32 s`, `49.3 s`, `4 min 6 s`."""
    if seconds is None:
        return NOTHING
    if seconds < 10:
        return f"{seconds:.2g} s"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def format_time(at_us: int) -> str:
    """The time of day in UTC, to the second."""
    return f"{clock.to_utc(at_us):%H:%M:%S}"


def format_short_time(microseconds: int) -> str:
    """A length of time in one message's life, which may be short: `0.4 ms`, `12 ms`, `3.2 s`."""
    ms = microseconds / 1000
    if abs(ms) < 10:
        return f"{ms:.1f} ms"
    return f"{ms:.0f} ms" if abs(ms) < 1000 else f"{ms / 1000:,.1f} s"


def format_moment(at_us: int) -> str:
    """The time of day in UTC, to the millisecond: what one message's life is told in."""
    return f"{clock.to_utc(at_us):%H:%M:%S.%f}"[:-3]
