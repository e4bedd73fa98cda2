"""Draws the timeline of a run as one Plotly figure: a row for each series, and faults as bands over all rows.

A figure is a dictionary in Plotly's JSON schema. Plotly's script draws it in the browser.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokerproof.experiment.numbers import format_seconds
from brokerproof.results.story import DescribedFault
from brokerproof.run.observations import CURVES
from brokerproof.run.series import RunSeries

# Okabe and Ito's colours, ordered so that neighbours differ most. Light and dark pages use the same.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8f8f3f", "#7f7f7f")
_BANDS = {"broken": "#d55e00", "healing": "#56b4e9"}
# The bar above the rows from a fault's injection to the end of the last interruption.
_INTERRUPTED, _BAR_PX = "#d55e00", 4
# The heights of a row and its title, and of the margins above the first row and below the last.
_ROW_PX, _TITLE_PX, _TOP_PX, _BOTTOM_PX = 110, 36, 76, 36
# More curves in a row are not readable. Only the highest are drawn, and the title states how many curves there are.
_MOST_CURVES = 12
# The number of curves whose names fit next to a row's title. The hover text has all names.
_MOST_NAMES = 6
# The number of lanes that fit into a row together with the owners' names.
_MOST_LANES = 6
# An owner's name is drawn only on a line that lasts for at least this share of the run, so that the name fits.
_NAMED = 0.08
NOBODY, NO_ANSWER = "nobody", "no answer"
# The colours of times without a known owner. No node gets one of these colours.
_WITHOUT_OWNER = {NOBODY: COLOURS[5], NO_ANSWER: COLOURS[7]}
_OWNER_COLOURS = tuple(colour for colour in COLOURS if colour not in _WITHOUT_OWNER.values())


@dataclass(frozen=True, kw_only=True)
class ChartRow:
    """One row: its curves as (name, one value for each step), all on one axis."""

    title: str
    unit: str
    curves: Sequence[tuple[str, Sequence[float | None]]]
    logarithmic: bool = False
    # Whether the area down to zero is filled, for counts.
    filled: bool = False


@dataclass(frozen=True, kw_only=True)
class OwnerLane:
    """A span in which a topic had one owner. `start` and `end` are microseconds.

    `owner` is `NOBODY` if no node served the topic, and `NO_ANSWER` if no node answered who serves it.
    """

    # The name of the lane in which the span is drawn.
    name: str
    owner: str
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class OwnerRow:
    """The chart's row of topic owners. `lanes` has the spans between two changes of a topic's owner.

    If there are several topics (`several`), each topic is drawn in a lane of its own. Otherwise each owner is.
    """

    title: str
    lanes: Sequence[OwnerLane]
    several: bool


@dataclass(frozen=True, kw_only=True)
class TimelineChart:
    """The figure, and its description for people who do not see it."""

    figure: dict[str, Any]
    description: str
    height_px: int


def draw_timeline(
    series: RunSeries, faults: Sequence[DescribedFault], recovery: Mapping[str, Mapping[str, float | None]]
) -> TimelineChart:
    """Return the timeline of a run. `recovery` has the measured values by fault and metric."""
    rows = list(_list_rows(series))
    owners = _lay_out_owners(series)
    count = len(rows) + bool(owners.lanes)
    height = _TOP_PX + (_ROW_PX + _TITLE_PX) * count - _TITLE_PX + _BOTTOM_PX
    times = [_to_ms(series.start, step * series.step_s) for step in range(series.steps)]
    figure: dict[str, Any] = {"data": [], "layout": _make_layout(height, times)}
    domains = list(_divide(count))
    for number, row in enumerate(rows):
        _add_row(figure, number, row, times, domains[number])
    if owners.lanes:
        _add_owners(figure, len(rows), owners, domains[-1])
    figure["layout"]["shapes"] = [*_make_bands(faults, times), *_make_bars(faults, recovery)]
    figure["layout"]["annotations"] += list(_make_labels(faults, recovery))
    names = tuple([row.title for row in rows] + ([owners.title] if owners.lanes else []))
    return TimelineChart(figure=figure, description=f"Over time: {', '.join(names)}.", height_px=height)


def _list_rows(series: RunSeries) -> Iterator[ChartRow]:
    per_s = 1 / series.step_s
    several = len(series.publishes) > 1
    acked = [(f"acked in {one.cluster}" if several else "acked", _scale(one.acked, per_s)) for one in series.publishes]
    for outcome, words in (("failed", "failed"), ("unknown", "unknown"), ("not_sent", "not sent")):
        acked += [
            (f"{words} in {one.cluster}" if several else words, _scale(getattr(one, outcome), per_s))
            for one in series.publishes
            if any(getattr(one, outcome))
        ]
    if acked:
        yield ChartRow(title="published", unit="messages/s", curves=acked, filled=True)
    delivered = [
        (one.subscription if not several else f"{one.subscription} in {one.cluster}", _scale(one.delivered, per_s))
        for one in series.deliveries
    ]
    if delivered:
        yield ChartRow(title="delivered", unit="messages/s", curves=delivered, filled=True)
    latencies = [
        (f"{name} in {one.cluster}" if several else name, getattr(one, field_name))
        for one in series.publishes
        for name, field_name in (("p50", "p50_ms"), ("p99", "p99_ms"), ("longest", "max_ms"))
    ]
    if latencies:
        yield ChartRow(title="publish latency, by schedule", unit="ms", curves=latencies, logarithmic=True)
    for metric, curve in CURVES.items():
        found = list(series.find_samples(metric))
        subjects, sources = {subject for _, subject, _ in found}, {source for source, _, _ in found}
        curves = [
            (_name_curve(source, subject, len(sources) > 1, len(subjects) > 1), _scale(one.values, curve.factor))
            for source, subject, one in found
        ]
        if curves:
            yield _limit_curves(ChartRow(title=curve.title, unit=curve.unit, curves=curves))


def _name_curve(source: str, subject: str, by_source: bool, by_subject: bool) -> str:
    parts = [*([subject] if subject and (by_subject or not by_source) else []), *([source] if by_source else [])]
    return " · ".join(parts) or source or subject


def _limit_curves(row: ChartRow) -> ChartRow:
    """Return the row with its highest `_MOST_CURVES` curves. A cluster may have hundreds of nodes."""
    if len(row.curves) <= _MOST_CURVES:
        return row
    highest = sorted(row.curves, key=lambda curve: max((v for v in curve[1] if v is not None), default=0.0))
    title = f"{row.title} (the {_MOST_CURVES} highest of {len(row.curves)})"
    return ChartRow(title=title, unit=row.unit, curves=highest[-_MOST_CURVES:][::-1])


def _scale(values: Iterable[float | int | None], factor: float) -> list[float | None]:
    return [None if value is None else round(value * factor, 4) for value in values]


def _lay_out_owners(series: RunSeries) -> OwnerRow:
    end = series.start + int(series.steps * series.step_s * 1e6)
    by_topic: dict[str, list[tuple[int, str]]] = {}
    for change in series.owners:
        owner = NO_ANSWER if change.owner is None else change.owner or NOBODY
        by_topic.setdefault(change.topic, []).append((change.at, owner))
    # People look for the topics whose owner changed most often.
    shown = sorted(by_topic, key=lambda topic: (-len(by_topic[topic]), topic))[:_MOST_LANES]
    several = len(by_topic) > 1
    title = f"owner of each of {len(by_topic)} topics" if several else "topic owner"
    if len(shown) < len(by_topic):
        title = f"owner of {_MOST_LANES} of {len(by_topic)} topics, those whose owner changed most often"
    cut = _count_common(by_topic) if several else 0
    lanes = []
    for topic in sorted(shown):
        changes = by_topic[topic]
        for number, (at, owner) in enumerate(changes):
            until = changes[number + 1][0] if number + 1 < len(changes) else end
            name = topic[cut:] if several else owner
            lanes.append(OwnerLane(name=name, owner=owner, start=at, end=until))
    return OwnerRow(title=title, lanes=lanes, several=several)


def _count_common(topics: Iterable[str]) -> int:
    """Return the length of the longest prefix that all topics share and that ends with `/` or `-`; 0 without one."""
    ordered = sorted(topics)
    first, last = ordered[0], ordered[-1]
    alike = next((place for place, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), len(first))
    return max(first[:alike].rfind(separator) for separator in "/-") + 1


def _divide(count: int) -> Iterator[tuple[float, float]]:
    """Yield (bottom, top) of each row, the top row first, as shares of the height between the margins."""
    whole = (_ROW_PX + _TITLE_PX) * count - _TITLE_PX
    for number in range(count):
        top = whole - number * (_ROW_PX + _TITLE_PX)
        yield max(0.0, (top - _ROW_PX) / whole), top / whole


def _make_layout(height: int, times: Sequence[float]) -> dict[str, Any]:
    return {
        "height": height,
        "margin": {"l": 64, "r": 16, "t": _TOP_PX, "b": _BOTTOM_PX},
        "showlegend": False,
        "hovermode": "x unified",
        "hoverdistance": 30,
        "colorway": list(COLOURS),
        "xaxis": {
            "type": "date",
            "anchor": "free",
            "position": 0,
            "range": [times[0], times[-1]] if times else None,
            "showspikes": True,
            "spikemode": "across",
            "spikethickness": 1,
            "tickformat": "%H:%M:%S",
            "title": {"text": "UTC"},
        },
        "annotations": [],
        "shapes": [],
    }


def _add_row(
    figure: dict[str, Any], number: int, row: ChartRow, times: Sequence[float], domain: tuple[float, float]
) -> None:
    axis = "yaxis" if number == 0 else f"yaxis{number + 1}"
    figure["layout"][axis] = {
        "domain": list(domain),
        "title": {"text": row.unit, "standoff": 4},
        "type": "log" if row.logarithmic else "linear",
        "rangemode": "tozero",
        "fixedrange": True,
        "nticks": 4,
        **({"dtick": 1} if row.logarithmic else {}),
    }
    _add_title(figure, row.title, domain, [name for name, _ in row.curves])
    for place, (name, values) in enumerate(row.curves):
        figure["data"].append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "x": list(times),
                "y": list(values),
                "yaxis": "y" if number == 0 else f"y{number + 1}",
                "line": {"width": 1.5, "shape": "hv", "color": COLOURS[place % len(COLOURS)]},
                "connectgaps": False,
                "hovertemplate": f"%{{y:,.4~g}} {row.unit}<extra>{name}</extra>",
                **({"fill": "tozeroy"} if row.filled and len(row.curves) == 1 else {}),
            }
        )


def _add_owners(figure: dict[str, Any], number: int, row: OwnerRow, domain: tuple[float, float]) -> None:
    axis = "yaxis" if number == 0 else f"yaxis{number + 1}"
    served = sorted({lane.owner for lane in row.lanes} - _WITHOUT_OWNER.keys())
    colours = {owner: _OWNER_COLOURS[place % len(_OWNER_COLOURS)] for place, owner in enumerate(served)}
    figure["layout"][axis] = {
        "domain": list(domain),
        "type": "category",
        # Room above the highest lane for the owners' names.
        "range": [-0.5, len({lane.name for lane in row.lanes}) - 0.3],
        "fixedrange": True,
        "automargin": True,
    }
    _add_title(figure, row.title, domain)
    whole = max(lane.end for lane in row.lanes) - min(lane.start for lane in row.lanes)
    for lane in row.lanes:
        colour = _WITHOUT_OWNER.get(lane.owner) or (colours[lane.owner] if row.several else COLOURS[0])
        figure["data"].append(
            {
                "type": "scatter",
                "mode": "lines+text" if row.several else "lines",
                "name": lane.owner,
                "x": [lane.start / 1000, lane.end / 1000],
                "y": [lane.name, lane.name],
                "yaxis": "y" if number == 0 else f"y{number + 1}",
                "line": {"width": 7 if row.several else 10, "color": colour},
                "hovertemplate": f"{lane.owner}<extra>{'owner of ' + lane.name if row.several else 'owner'}</extra>",
                **(
                    {
                        "text": [lane.owner if lane.end - lane.start >= _NAMED * whole else "", ""],
                        "textposition": "top right",
                        "textfont": {"size": 9},
                        "cliponaxis": True,
                    }
                    if row.several
                    else {}
                ),
            }
        )


def _add_title(figure: dict[str, Any], text: str, domain: tuple[float, float], curves: Sequence[str] = ()) -> None:
    """Add the title of a row, followed by the coloured names of its curves if there are 2 to `_MOST_NAMES`."""
    legend = [
        f'<span style="color:{COLOURS[place % len(COLOURS)]}">●</span> {html.escape(name)}'
        for place, name in enumerate(curves)
        if 1 < len(curves) <= _MOST_NAMES
    ]
    figure["layout"]["annotations"].append(
        {
            "text": "  ".join([f"<b>{text}</b>", *legend]),
            "xref": "paper",
            "yref": "paper",
            "x": 0,
            "y": domain[1],
            "xanchor": "left",
            "yanchor": "bottom",
            "showarrow": False,
        }
    )


def _make_bands(faults: Sequence[DescribedFault], times: Sequence[float]) -> Iterator[dict[str, Any]]:
    """Yield for each fault a band from injection to healing, one from healing to recovery, and a line at its effect.

    A fault that only helps another fault's recovery has no band from injection to healing.
    """
    for fault in faults:
        course, end = fault.course, times[-1] * 1000 if times else 0.0
        if course.injected_at is None:
            continue
        if not fault.helps:
            yield _make_band(course.injected_at, course.healed_at or course.recovered_at or end, _BANDS["broken"])
        if course.healed_at is not None:
            yield _make_band(course.healed_at, course.recovered_at or end, _BANDS["healing"])
        effect_ms = (course.effective_at or course.injected_at) / 1000
        yield {
            "type": "line",
            "xref": "x",
            "yref": "paper",
            "x0": effect_ms,
            "x1": effect_ms,
            "y0": 0,
            "y1": 1,
            "line": {"width": 1, "dash": "dot", "color": _BANDS["broken"]},
        }


def _make_band(start_us: float, end_us: float, colour: str) -> dict[str, Any]:
    return {
        "type": "rect",
        "xref": "x",
        "yref": "paper",
        "x0": start_us / 1000,
        "x1": end_us / 1000,
        "y0": 0,
        "y1": 1,
        "fillcolor": colour,
        "opacity": 0.12,
        "line": {"width": 0},
        "layer": "below",
    }


def _make_bars(
    faults: Sequence[DescribedFault], recovery: Mapping[str, Mapping[str, float | None]]
) -> Iterator[dict[str, Any]]:
    """Yield a bar for each fault with an RTO above 0, from its injection to the end of its last interruption."""
    for fault in faults:
        injected, rto_s = fault.course.injected_at, recovery.get(fault.course.fault, {}).get("rto_s")
        if injected is not None and rto_s:
            yield {
                "type": "rect",
                "xref": "x",
                "yref": "paper",
                "yanchor": 1,
                "ysizemode": "pixel",
                "x0": injected / 1000,
                "x1": injected / 1000 + rto_s * 1000,
                "y0": 0,
                "y1": _BAR_PX,
                "fillcolor": _INTERRUPTED,
                "line": {"width": 0},
            }


def _describe_interruption(values: Mapping[str, float | None]) -> str:
    rto_s, away_s = values.get("rto_s"), values.get("unavailable_s")
    if rto_s is None or away_s is None:
        return ""
    return f": RTO {format_seconds(rto_s)}, unavailable {format_seconds(away_s)}"


def _make_labels(
    faults: Sequence[DescribedFault], recovery: Mapping[str, Mapping[str, float | None]]
) -> Iterator[dict[str, Any]]:
    for number, fault in enumerate(faults):
        at = fault.course.effective_at or fault.course.injected_at
        if at is not None:
            yield {
                "text": fault.sentence + _describe_interruption(recovery.get(fault.course.fault, {})),
                "xref": "x",
                "yref": "paper",
                "x": at / 1000,
                "y": 1,
                "yshift": 34 + 12 * (number % 2),
                "xanchor": "left",
                "showarrow": False,
                "font": {"size": 11},
            }


def _to_ms(start_us: int, seconds: float) -> float:
    """Return the time `seconds` after `start_us` in milliseconds since the epoch, the unit of Plotly's date axes."""
    return start_us / 1000 + seconds * 1000
