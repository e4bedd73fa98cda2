"""The page of a run: whole without another host, safe with any text, and honest about what is missing."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from brokerproof.clock import now_us
from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.verdict import Verdict
from brokerproof.reports.pages import Page
from brokerproof.reports.run_page import render_run_page
from brokerproof.reports.run_report import NO_SERIES, read_run_report
from brokerproof.reports.timeline_chart import COLOURS
from brokerproof.results.retention import MESSAGE_TABLES
from brokerproof.run.directory import Run
from brokerproof.run.records import TablesDeletion, write_record
from brokerproof.run.series import DeliverySeries, OwnerChange, PublishSeries, RunSeries, SampleSeries
from builders import make_check, make_counts, make_judgement, make_measurement, make_run, make_suite

NASTY = "</script><script>alert(1)</script>"
START = 1_700_000_000_000_000


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run of a shipped scenario in which a region was destroyed and one message was lost."""
    made = make_run(tmp_path / "run", "sync_datacenter_loss", versions={"java": "9.9"}, triggered_by=f"alice {NASTY}")
    (name,) = (fault.name for fault in made.scenario.faults)
    targets = [node for node, one in made.topology.nodes.items() if one.region == "eu"]
    fault = {"run_id": "r", "fault": name, "kind": "destroy", "targets": targets, "evidence": ""}
    made.append("faults", [{**fault, "state": state, "at": START + 2_000_000} for state in ("injecting", "effective")])
    place = {"run_id": "r", "cluster": "mycluster", "topic": "t", "partition": -1, "state": "OPEN", "first_offset": 0}
    for at, moment, holders in ((START, "before", ["bookie-eu-1"]), (START + 9, "end", ["bookie-us-1"])):
        made.append("copies", [{**place, "at": at, "moment": moment, "segment": 1, "holders": holders}])
    made.append(
        "anomalies",
        [{"run_id": "r", "anomaly": "lost", "legal": False, "cluster": "mycluster", "producer": NASTY, "seq": 7}],
    )
    return made


def judge(run: Run, **recovery: float) -> None:
    """Leave a judgement; `recovery` has the values of the fault."""
    checks = [
        make_check(Anomaly.LOST, Verdict.FAILED, unexpected=1, samples=({"producer": NASTY, "seq": 7},)),
        make_check("not_replicated", Verdict.NOT_APPLICABLE, why="it has one cluster"),
    ]
    late = make_check("rto_s", Verdict.FAILED, unexpected=1)
    judgement = make_judgement(
        Verdict.FAILED,
        why="one is lost",
        suites={
            Suite.COMPLETENESS: make_suite(Verdict.FAILED, *checks),
            Suite.RECOVERY: make_suite(Verdict.FAILED, late),
        },
        counts=make_counts(9, failed=0, unknown=0, recovered=0, stored=8, deliveries=8, illegal={Anomaly.LOST: 1}),
        recovery={run.scenario.faults[0].name: recovery},
        measurements=(make_measurement("r", "rto_s", 91.0, maximum=90.0), make_measurement("r", "detect_s", 31.0)),
    )
    write_record(run, judgement)


SERIES = RunSeries(
    start=START,
    step_s=1.0,
    steps=3,
    publishes=(
        PublishSeries(
            cluster="mycluster",
            acked=(5, 0, 4),
            failed=(0, 0, 0),
            unknown=(0, 1, 0),
            p50_ms=(1.0, None, 2.0),
            p99_ms=(1.5, None, 9.0),
            max_ms=(2.0, None, 9.5),
        ),
    ),
    deliveries=(
        DeliverySeries(
            cluster="mycluster", subscription=NASTY, delivered=(5, 0, 4), p50_ms=(1, None, 2), p99_ms=(1, None, 2)
        ),
    ),
    samples=(
        SampleSeries(source="node:bookie-us-1", metric="bytes_written", values=(None, 1e6, 2e6)),
        SampleSeries(source="topic:t", metric="backlog:audit", values=(0.0, 3.0, None)),
    ),
    owners=(
        OwnerChange(topic="t", at=START, owner="broker-eu-1"),
        OwnerChange(topic="t", at=START + 1_000_000, owner=""),
    ),
)


def read_charts(html: str) -> list[dict[str, Any]]:
    found = re.findall(r'<script type="application/json" id="data-[^"]*">(.*?)</script>', html, re.DOTALL)
    return [json.loads(text) for text in found]


def test_the_page_tells_the_story_the_bounds_and_the_places(run: Run) -> None:
    judge(run)
    write_record(run, SERIES)
    html = render_run_page(read_run_report(run), Page(root="../"))
    assert "eu was destroyed at " in html
    assert "9 messages acked, 1 lost" in html
    assert re.search(r"<td>91 s.*?</td>\s*<td>at most 90 s <strong>broken</strong>", html)
    # What does not apply is told apart from what held.
    assert re.search(r"1 that do not apply.*?not applicable: it has one cluster", html, re.DOTALL)
    assert "before: 1 of 1 segments; end: 0 of 1 segments" in html
    assert "before: 0 of 1 segments; end: 1 of 1 segments" in html
    assert "<dt>triggered by</dt><dd>alice &lt;/script" in html


def test_a_value_without_a_bound_did_not_pass_and_what_was_not_measured_has_its_reason(run: Run) -> None:
    measured = [
        make_measurement("r", "detect_s", 31.0),
        make_measurement("r", "reassign_s", None, evidence="owner was not a target"),
        make_measurement("r", "rto_s", None, at_least=61.0, maximum=60.0, evidence="never seen to end"),
        make_measurement("r", "first_ack_s", 5.0),
    ]
    checks = [
        make_check("detect_s"), make_check("reassign_s"), make_check("rto_s", Verdict.FAILED, unexpected=1),
        # A user's suite has a bound of its own.
        make_check("first_ack_s", maximum=7.0), make_check("lost_later_messages", rows=0),
    ]  # fmt: skip
    suites = {Suite.RECOVERY: make_suite(Verdict.FAILED, *checks)}
    write_record(run, make_judgement(Verdict.FAILED, suites=suites, measurements=measured))
    html = render_run_page(read_run_report(run), Page())

    def find_row(metric: str) -> str:
        (row,) = re.findall(rf"<tr[^>]*>(?:(?!</tr>).)*<code>{metric}</code></th>\s*<td>.*?</tr>", html, re.DOTALL)
        return " ".join(re.sub(r"<[^>]*>", " ", row.partition('<td rowspan="1" class="number"')[0]).split())

    html = html[html.index('aria-labelledby="expectations"') :]
    assert find_row("detect_s") == f"– no bound {METRICS['detect_s'].demand} detect_s 31 s after planted_fault"
    assert find_row("reassign_s").endswith("reassign_s not measured after planted_fault owner was not a target")
    assert find_row("rto_s").startswith("✗ failed")
    assert find_row("rto_s").endswith("rto_s at least 61 s after planted_fault never seen to end at most 60 s broken")
    assert find_row("first_ack_s").startswith("✓ passed")
    assert find_row("first_ack_s").endswith("5 s after planted_fault at most 7 s")
    assert "<em>not measured: the run has no destroying fault to which it applies</em>" in html


def test_the_versions_are_those_of_the_run_and_not_of_who_reads(run: Run) -> None:
    judge(run)
    report = read_run_report(run)
    assert report.versions == {"java": "9.9", "pulsar": "4.0.8"}
    assert "<dt>java</dt><dd>9.9</dd>" in render_run_page(report, Page())


def test_only_what_belongs_to_a_fault_is_after_something(run: Run) -> None:
    judge(run)
    values = {row.check.name: row.values for row in read_run_report(run).expectations}
    assert values["rto_s"][0][0] == "after planted_fault"


def test_the_timeline_is_a_figure_that_plotly_takes_with_every_row(run: Run) -> None:
    judge(run)
    write_record(run, SERIES)
    (chart,) = read_charts(render_run_page(read_run_report(run), Page()))
    figure = go.Figure(chart)
    titles = [text.text for text in figure.layout.annotations]
    for title in ("published", "delivered", "publish latency, by schedule", "written to each storage node"):
        assert any(text.startswith(f"<b>{title}</b>") for text in titles)
    # Which curve is which is seen without a pointer.
    assert any("acked" in text and "unknown" in text and COLOURS[1] in text for text in titles)
    acked = next(curve for curve in chart["data"] if curve["name"] == "acked")
    assert acked["y"] == [5, 0, 4]
    assert [curve["name"] for curve in chart["data"] if curve["line"]["width"] == 10] == ["broker-eu-1", "nobody"]
    # One band for the fault, which was never healed, to the end of the picture.
    (band,) = [shape for shape in chart["layout"]["shapes"] if shape["type"] == "rect"]
    assert band["x1"] == acked["x"][-1]


def test_the_timeline_says_how_long_a_fault_interrupted_clients(run: Run) -> None:
    judge(run, rto_s=0.5, unavailable_s=0.25)
    write_record(run, SERIES)
    (chart,) = read_charts(render_run_page(read_run_report(run), Page()))
    labels = [text["text"] for text in chart["layout"]["annotations"]]
    assert any(label.endswith(": RTO 0.5 s, unavailable 0.25 s") for label in labels), labels
    (bar,) = [shape for shape in chart["layout"]["shapes"] if shape.get("ysizemode") == "pixel"]
    assert bar["x1"] - bar["x0"] == 500


def test_no_text_of_a_run_becomes_markup(run: Run) -> None:
    judge(run)
    write_record(run, SERIES)
    for page in (Page(root="../"), Page(inline=True, draws=False)):
        html = render_run_page(read_run_report(run), page)
        assert "alert(1)" in html
        assert "<script>alert" not in html


def test_a_page_of_its_own_asks_nobody_for_anything(run: Run) -> None:
    judge(run)
    write_record(run, SERIES)
    html = render_run_page(read_run_report(run), Page(inline=True))
    assert "Plotly" in html
    assert not re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(?!data:)', html)
    assert "@import" not in html.split("<body>")[0]


def test_a_run_without_series_or_judgement_says_so_instead_of_drawing_nothing(run: Run) -> None:
    report = read_run_report(run)
    assert report.judgement is None
    html = render_run_page(report, Page())
    assert NO_SERIES.split("`")[0].strip() in html
    assert "nothing was judged" in html
    assert "None was found, because the run was not judged" in html
    assert read_charts(html) == []


def test_damaged_series_are_told(run: Run) -> None:
    judge(run)
    run.write_text("state/run_series.json", json.dumps({"version": 1, "start": "yesterday"}))
    assert any("`start`" in problem for problem in read_run_report(run).problems)


def test_series_of_hundreds_of_nodes_are_drawn_for_the_highest_only(run: Run) -> None:
    judge(run)
    many = tuple(
        SampleSeries(source=f"node:bookie-{number}", metric="bytes_written", values=(0.0, number * 1e6, 0.0))
        for number in range(300)
    )
    write_record(run, SERIES.model_copy(update={"samples": many}))
    (chart,) = read_charts(render_run_page(read_run_report(run), Page()))
    drawn = [curve["name"] for curve in chart["data"] if curve["name"].startswith("bookie-")]
    assert drawn == [f"bookie-{number}" for number in range(299, 287, -1)]
    assert any("the 12 highest of 300" in text["text"] for text in chart["layout"]["annotations"])


def test_the_time_of_creation_is_that_of_the_run(run: Run) -> None:
    created = run.facts.created_at
    assert abs(created.timestamp() * 1e6 - now_us()) < 60e6
    assert f"{created:%Y-%m-%d %H:%M:%S} UTC" in render_run_page(read_run_report(run), Page())


def test_a_report_of_a_run_without_its_tables_says_when_and_why_they_went(run: Run) -> None:
    judge(run)
    write_record(run, TablesDeletion(why="after 30 days (BROKERPROOF_KEEP_TABLES_DAYS)", at=1_767_225_600_000_000))
    for table in MESSAGE_TABLES:
        shutil.rmtree(run.table(table), ignore_errors=True)

    report = read_run_report(run)

    assert report.problems == (
        "The messages of this run cannot be looked at any more: its tables were deleted on 2026-01-01, after 30 days "
        "(BROKERPROOF_KEEP_TABLES_DAYS).",
    )
    assert report.faults
    assert report.segments


def test_recovery_is_divided_into_what_came_next(run: Run) -> None:
    judge(run)
    html = render_run_page(read_run_report(run), Page())
    bars = re.findall(r'<span class="what">([^<]+)</span>.*?margin-left: ([\d.]+)%; width: max\(3px, ([\d.]+)%\)', html)
    assert bars == [
        ("failure detected after 31.0 s", "0.00", "34.07"),
        ("last interruption over after 91.0 s", "34.07", "65.93"),
    ]
