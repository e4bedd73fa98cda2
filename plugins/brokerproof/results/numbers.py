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
