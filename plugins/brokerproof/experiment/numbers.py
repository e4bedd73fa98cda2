"""Numbers and times as text for people, with only the digits that are meaningful, and lists of names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from brokerproof import clock

NOTHING = "–"


def format_value(value: float | None, unit: str = "", *, sign: str = "") -> str:
    """Return a value with three significant digits, or without decimals if it is whole or at least 100; `–` for None.

    If `sign` is `+`, a positive value gets a plus sign.
    """
    if value is None:
        return NOTHING
    # Infinity is above 100, so the first format writes it as `inf`.
    text = f"{value:{sign},.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:{sign}.3g}"
    return f"{text} {unit}".rstrip()


def format_exactly(value: float | str, unit: str = "") -> str:
    """Return a value with six significant digits, so that a value just outside a bound does not look equal to it.

    The value may be a text such as `Infinity`, because JSON has no such number.
    """
    number = float(value)
    return f"{f'{number:,.0f}' if number.is_integer() else f'{number:,.6g}'} {unit}".rstrip()


def format_bounds(
    least: float | str | None,
    greatest: float | str | None,
    unit: str = "",
    *,
    write: Callable[[Any, str], str] = format_value,
) -> list[str]:
    """Return one text for each bound that is not None, such as `at least 5 s` and `at most 90 s`."""
    bounds = (("at least", least), ("at most", greatest))
    return [f"{words} {write(bound, unit)}" for words, bound in bounds if bound is not None]


def format_count(count: int | None) -> str:
    """Return a count with thousands separators; `–` for None."""
    return NOTHING if count is None else f"{count:,}"


def format_seconds(seconds: float | None) -> str:
    """Return a duration as `0.32 s`, `49.3 s` or `4 min 6 s`; `–` for None."""
    if seconds is None:
        return NOTHING
    if seconds < 10:
        return f"{seconds:.2g} s"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def format_time(at_us: int) -> str:
    """Return the time of day in UTC, to the second."""
    return f"{clock.to_utc(at_us):%H:%M:%S}"


def format_short_time(microseconds: int) -> str:
    """Return a duration in the life of a message as `0.4 ms`, `12 ms` or `3.2 s`."""
    ms = microseconds / 1000
    if abs(ms) < 10:
        return f"{ms:.1f} ms"
    return f"{ms:.0f} ms" if abs(ms) < 1000 else f"{ms / 1000:,.1f} s"


def format_moment(at_us: int) -> str:
    """Return the time of day in UTC, to the millisecond, for the events in the life of a message."""
    return f"{clock.to_utc(at_us):%H:%M:%S.%f}"[:-3]


def join_names(names: Iterable[str]) -> str:
    """Join names: `a`, `a and b` or `a, b and c`. `names` must not be empty."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
