"""Draws the timeline of a run as one Plotly figure: a row for each series, and faults as bands over all rows.

Plotly takes a text in a figure for HTML, so each text that a run recorded is escaped. The figure is a dictionary in
Plotly's JSON schema, which Plotly's script draws in the browser. The classes of the package plotly are not used,
because with them a page takes 5 to 9 times the time to render.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from brokerproof.experiment.numbers import format_seconds
from brokerproof.results.story import DescribedFault
from brokerproof.run.observations import CURVES
from brokerproof.run.series import RunSeries

# Okabe and Ito's colours, ordered so that neighbours differ most. Light and dark pages use the same.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8f8f3f", "#7f7f7f")
# The colours of a fault's bands, and of the bar above the rows that shows how long it interrupted clients.
_BROKEN, _HEALING, _INTERRUPTED = "#d55e00", "#56b4e9", "#d55e00"
_BAR_PX = 4
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
# The owner in a span in which no node served the topic, and in one in which no node answered who serves it.
NOBODY, NO_ANSWER = "nobody", "no answer"
# The colours of times without a known owner. No node gets one of these colours.
_WITHOUT_OWNER = {NOBODY: COLOURS[5], NO_ANSWER: COLOURS[7]}
_OWNER_COLOURS = tuple(colour for colour in COLOURS if colour not in _WITHOUT_OWNER.values())
# What most parts of the figure have in common. Plotly's script adds it to each part.
_TEMPLATE = {
    "data": {"scatter": [{"mode": "lines", "line": {"shape": "hv"}}]},
    "layout": {
        "yaxis": {"fixedrange": True},
        "shapedefaults": {"yref": "paper", "y0": 0, "y1": 1, "line": {"width": 0}},
        "annotationdefaults": {"xanchor": "left", "yref": "paper", "y": 1, "showarrow": False},
    },
}

_Curves = Sequence[tuple[str, Sequence[float | None]]]


@dataclass(frozen=True, kw_only=True)
class ChartRow:
    """One row of the timeline. `heading` is the title as HTML. Axis and curves are dictionaries in Plotly's schema."""

    title: str
    heading: str
    axis: dict[str, Any]
    curves: Sequence[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class TimelineChart:
    """A timeline as a Plotly figure, and a description for people who cannot see the figure."""

    figure: dict[str, Any]
    description: str
    height_px: int


def draw_timeline(
    series: RunSeries, faults: Sequence[DescribedFault], recovery: Mapping[str, Mapping[str, float | None]]
) -> TimelineChart:
    """Return the timeline of a run. `recovery` has the measured values by fault and metric."""
    # Milliseconds since the epoch are the unit of Plotly's date axes.
    times = [series.start / 1000 + step * series.step_s * 1000 for step in range(series.steps)]
    rows = [*_list_rows(series, times), *_list_owner_rows(series)]
    height = _TOP_PX + (_ROW_PX + _TITLE_PX) * len(rows) - _TITLE_PX + _BOTTOM_PX
    layout: dict[str, Any] = {
        "height": height,
        "margin": {"l": 64, "r": 16, "t": _TOP_PX, "b": _BOTTOM_PX},
        "showlegend": False,
        "hovermode": "x unified",
        "hoverdistance": 30,
        "grid": {"rows": max(1, len(rows)), "columns": 1, "ygap": _TITLE_PX / (_ROW_PX + _TITLE_PX)},
        "template": _TEMPLATE,
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
        "shapes": list(_make_shapes(faults, recovery, times[-1] if times else 0.0)),
    }
    titles: list[dict[str, Any]] = []
    data: list[dict[str, Any]] = []
    for number, row in enumerate(rows, start=1):
        suffix = "" if number == 1 else str(number)
        layout[f"yaxis{suffix}"] = row.axis
        titles.append({"text": row.heading, "xref": "paper", "x": 0, "yref": f"y{suffix} domain", "yanchor": "bottom"})
        data += [curve | {"yaxis": f"y{suffix}"} for curve in row.curves]
    layout["annotations"] = [*titles, *_make_labels(faults, recovery)]
    description = f"Over time: {', '.join(row.title for row in rows)}."
    return TimelineChart(figure={"data": data, "layout": layout}, description=description, height_px=height)


def _list_rows(series: RunSeries, times: Sequence[float]) -> Iterator[ChartRow]:
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
        yield _make_row("published", "messages/s", times, acked, filled=True)
    delivered = [
        (one.subscription if not several else f"{one.subscription} in {one.cluster}", _scale(one.delivered, per_s))
        for one in series.deliveries
    ]
    if delivered:
        yield _make_row("delivered", "messages/s", times, delivered, filled=True)
    latencies = [
        (f"{name} in {one.cluster}" if several else name, getattr(one, field_name))
        for one in series.publishes
        for name, field_name in (("p50", "p50_ms"), ("p99", "p99_ms"), ("longest", "max_ms"))
    ]
    if latencies:
        yield _make_row("publish latency, by schedule", "ms", times, latencies, logarithmic=True)
    for metric, curve in CURVES.items():
        found = list(series.find_samples(metric))
        subjects, sources = {subject for _, subject, _ in found}, {source for source, _, _ in found}
        curves = [
            (_name_curve(source, subject, len(sources) > 1, len(subjects) > 1), _scale(one.values, curve.factor))
            for source, subject, one in found
        ]
        title = curve.title
        # A cluster may have hundreds of nodes.
        if len(curves) > _MOST_CURVES:
            title = f"{title} (the {_MOST_CURVES} highest of {len(curves)})"
            highest = sorted(curves, key=lambda one: max((v for v in one[1] if v is not None), default=0.0))
            curves = highest[-_MOST_CURVES:][::-1]
        if curves:
            yield _make_row(title, curve.unit, times, curves)


def _name_curve(source: str, subject: str, by_source: bool, by_subject: bool) -> str:
    parts = [*([subject] if subject and (by_subject or not by_source) else []), *([source] if by_source else [])]
    return " · ".join(parts) or source or subject


def _scale(values: Iterable[float | int | None], factor: float) -> list[float | None]:
    return [None if value is None else round(value * factor, 4) for value in values]


def _make_row(
    title: str, unit: str, times: Sequence[float], curves: _Curves, *, logarithmic: bool = False, filled: bool = False
) -> ChartRow:
    """Return a row of the timeline. Its `curves` are (name, one value for each of `times`) and share an axis.

    The names of 2 to `_MOST_NAMES` curves follow the title in the curves' colours. If `filled`, the area below a single
    curve is filled; this is for counts.
    """
    colours = [COLOURS[place % len(COLOURS)] for place in range(len(curves))]
    curves = [(html.escape(name), values) for name, values in curves]
    names = [
        f'  <span style="color:{colour}">●</span> {name}'
        for colour, (name, _) in zip(colours, curves, strict=True)
        if 1 < len(curves) <= _MOST_NAMES
    ]
    scale = {"type": "log", "dtick": 1} if logarithmic else {"type": "linear"}
    fill = {"fill": "tozeroy"} if filled and len(curves) == 1 else {}
    return ChartRow(
        title=title,
        heading="".join([f"<b>{title}</b>", *names]),
        axis={"title": {"text": unit, "standoff": 4}, "rangemode": "tozero", "nticks": 4, **scale},
        curves=[
            {
                "name": name,
                "x": times,
                "y": values,
                "line": {"width": 1.5, "color": colour},
                "hovertemplate": f"%{{y:,.4~g}} {unit}<extra>{name}</extra>",
                **fill,
            }
            for colour, (name, values) in zip(colours, curves, strict=True)
        ],
    )


def _list_owner_rows(series: RunSeries) -> Iterator[ChartRow]:
    """Yield a row that shows which node (owner) served each topic; no row if owners were not sampled.

    A line is a span between two changes of owner. If there are several topics, each of at most `_MOST_LANES` topics has
    a lane. If there is one topic, each of its owners has a lane.
    """
    end = series.start + int(series.steps * series.step_s * 1e6)
    by_topic: dict[str, list[tuple[int, str]]] = {}
    for change in series.owners:
        owner = NO_ANSWER if change.owner is None else html.escape(change.owner) or NOBODY
        by_topic.setdefault(html.escape(change.topic), []).append((change.at, owner))
    if not by_topic:
        return
    # People look for the topics whose owner changed most often.
    shown = sorted(by_topic, key=lambda topic: (-len(by_topic[topic]), topic))[:_MOST_LANES]
    several = len(by_topic) > 1
    title = f"owner of each of {len(by_topic)} topics" if several else "topic owner"
    if len(shown) < len(by_topic):
        title = f"owner of {_MOST_LANES} of {len(by_topic)} topics, those whose owner changed most often"
    cut = _count_common(by_topic) if several else 0
    spans = [
        (topic[cut:] if several else owner, owner, start, until)
        for topic in sorted(shown)
        for (start, owner), (until, _) in pairwise([*by_topic[topic], (end, "")])
    ]
    served = sorted({owner for _, owner, _, _ in spans} - _WITHOUT_OWNER.keys())
    colours = {
        owner: _OWNER_COLOURS[place % len(_OWNER_COLOURS)] if several else COLOURS[0]
        for place, owner in enumerate(served)
    }
    whole = max(until for *_, until in spans) - min(start for _, _, start, _ in spans)
    yield ChartRow(
        title=title,
        heading=f"<b>{title}</b>",
        # Room above the highest lane for the owners' names.
        axis={"type": "category", "range": [-0.5, len({lane for lane, *_ in spans}) - 0.3], "automargin": True},
        curves=[
            {
                "name": owner,
                "x": [start / 1000, until / 1000],
                "y": [lane, lane],
                "line": {"width": 7 if several else 10, "color": (colours | _WITHOUT_OWNER)[owner]},
                "hovertemplate": f"{owner}<extra>{'owner of ' + lane if several else 'owner'}</extra>",
                "mode": "lines+text" if several else "lines",
                "text": [owner if until - start >= _NAMED * whole else "", ""],
                "textposition": "top right",
                "textfont": {"size": 9},
                "cliponaxis": True,
            }
            for lane, owner, start, until in spans
        ],
    )


def _count_common(topics: Iterable[str]) -> int:
    """Return the length of the longest prefix that all topics share and that ends with `/` or `-`.

    If the topics share no such prefix, return 0.
    """
    ordered = sorted(topics)
    first, last = ordered[0], ordered[-1]
    alike = next((place for place, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), len(first))
    return max(first[:alike].rfind(separator) for separator in "/-") + 1


def _make_shapes(
    faults: Sequence[DescribedFault], recovery: Mapping[str, Mapping[str, float | None]], end_ms: float
) -> Iterator[dict[str, Any]]:
    """Yield the shapes of each injected fault: up to two bands, a line and a bar.

    The first band lasts from injection to healing, and the second from healing to recovery. A fault that does no harm
    has no first band. The line marks the time at which the fault took effect or, if this is
    not known, was injected. The bar, above the rows, shows an RTO above 0.
    """
    for fault in faults:
        course = fault.course
        injected, effective, healed, recovered = (
            None if at is None else at / 1000
            for at in (course.injected_at, course.effective_at, course.healed_at, course.recovered_at)
        )
        if injected is None:
            continue
        if fault.harms:
            yield _make_band(injected, healed or recovered or end_ms, _BROKEN)
        if healed is not None:
            yield _make_band(healed, recovered or end_ms, _HEALING)
        at_ms = effective or injected
        yield {"type": "line", "x0": at_ms, "x1": at_ms, "line": {"width": 1, "dash": "dot", "color": _BROKEN}}
        if rto_s := recovery.get(course.fault, {}).get("rto_s"):
            bar = {"ysizemode": "pixel", "yanchor": 1, "y1": _BAR_PX, "fillcolor": _INTERRUPTED}
            yield {"type": "rect", "x0": injected, "x1": injected + rto_s * 1000, **bar}


def _make_band(start_ms: float, end_ms: float, colour: str) -> dict[str, Any]:
    return {"type": "rect", "x0": start_ms, "x1": end_ms, "fillcolor": colour, "opacity": 0.12, "layer": "below"}


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
            text = html.escape(fault.sentence) + _describe_interruption(recovery.get(fault.course.fault, {}))
            yield {"text": text, "x": at / 1000, "yshift": 34 + 12 * (number % 2), "font": {"size": 11}, "xref": "x"}
