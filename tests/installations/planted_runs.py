"""Recorded runs that never took place, for tests of what people read: what they came to is what a test says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from brokerproof.checks import load_scenario
from brokerproof.clock import to_microseconds
from brokerproof.directories import Directories
from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.verdict import Verdict
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Judgement
from brokerproof.run.records import StepSeconds, write_record
from brokerproof.run.series import DeliverySeries, OwnerChange, PublishSeries, RunSeries, SampleSeries
from builders import FAULT, TOPOLOGIES, make_check, make_counts, make_judgement, make_measurement, make_suite

SECONDS = 120
# Messages of each run that were delivered twice, which the guarantee allows.
_REPEATED = 3


def plant_run(
    directory: Path,
    scenario_file: Path,
    topologies: Path = TOPOLOGIES,
    *,
    at: datetime,
    verdict: Verdict = Verdict.PASSED,
    rto_s: float | None = 5.0,
    lost: int = 0,
    problems: Sequence[str] = (),
    overrides: Mapping[str, Any] | None = None,
    **facts: Any,
) -> Run:
    """A run of a scenario that began `at`, with a fault, series, a judgement and some lost messages."""
    scenario, topology = load_scenario(scenario_file, Directories((topologies,)), overrides)
    start = to_microseconds(at)
    known = {"triggered_at": start, "addresses": {}, **facts}
    run = Run.create(str(directory), run_id=directory.name, scenario=scenario, topology=topology, **known)
    node = next(iter(topology.nodes))
    fault = {"run_id": run.run_id, "fault": FAULT, "kind": "kill", "targets": [node], "evidence": ""}
    states = {"injecting": 40, "effective": 40.2, "healing": 70, "recovered": 75}
    run.append(
        "faults", [{**fault, "state": state, "at": start + int(second * 1e6)} for state, second in states.items()]
    )
    found = [("lost", False, seq) for seq in range(lost)] + [("delivered_twice", True, seq) for seq in range(_REPEATED)]
    run.append(
        "anomalies",
        [
            {"run_id": run.run_id, "anomaly": name, "legal": legal, "cluster": "c", "producer": "p0", "seq": seq}
            for name, legal, seq in found
        ],
    )
    sent = {"producer": "p0", "key": "k", "epoch": 0, "outcome": "acked", "cluster": "c", "topic": "t", "partition": -1}
    times = dict.fromkeys(("scheduled_at", "sent_at", "settled_at"), start + 41_000_000)
    run.append(
        "publishes",
        [
            {"run_id": run.run_id, **sent, **times, "seq": seq, "payload_hash": seq}
            for seq in range(max(lost, _REPEATED))
        ],
    )
    write_record(run, judge_run(run, verdict, rto_s=rto_s, lost=lost, problems=problems))
    write_record(run, make_series(start, list(topology.nodes)))
    write_record(run, StepSeconds(step="verify", started_at=start, finished_at=start + SECONDS * 1_000_000))
    return run


def judge_run(run: Run, verdict: Verdict, *, rto_s: float | None, lost: int, problems: Sequence[str] = ()) -> Judgement:
    """A judgement with a verdict: a loss fails completeness."""
    completeness = Verdict.FAILED if lost else verdict
    left = 60_000 - lost
    return make_judgement(
        verdict,
        why="; ".join(problems) or f"{lost} messages are lost",
        problems=problems,
        suites={
            **dict.fromkeys(Suite, make_suite()),
            Suite.COMPLETENESS: make_suite(completeness, make_check(Anomaly.LOST, completeness, unexpected=lost)),
            Suite.RECOVERY: make_suite(Verdict.PASSED, make_check("rto_s")),
        },
        counts=make_counts(
            60_000, failed=0, unknown=0, recovered=0, stored=left, deliveries=left,
            legal={Anomaly.DELIVERED_TWICE: _REPEATED}, illegal={Anomaly.LOST: lost} if lost else {},
        ),
        measurements=(
            make_measurement(run.run_id, "rto_s", rto_s, maximum=90.0),
            make_measurement(run.run_id, "detect_s", 2.0),
            make_measurement(run.run_id, "longest_ack_gap_s", rto_s),
            make_measurement(run.run_id, "rpo_messages", float(lost)),
            make_measurement(run.run_id, "publish_latency_p99_ms", 12.0, subject="steady"),
        ),
        seconds={"facts": 1.0},
    )  # fmt: skip


def make_series(start: int, nodes: Sequence[str]) -> RunSeries:
    """Two minutes with a gap of five seconds."""
    gap = range(41, 46)
    rates = tuple(0 if second in gap else 500 for second in range(SECONDS))
    latencies = tuple(None if second in gap else 3.0 for second in range(SECONDS))
    return RunSeries(
        start=start,
        step_s=1.0,
        steps=SECONDS,
        publishes=(
            PublishSeries(
                cluster="c",
                acked=rates,
                failed=(0,) * SECONDS,
                unknown=(0,) * SECONDS,
                p50_ms=latencies,
                p99_ms=latencies,
                max_ms=latencies,
            ),
        ),
        deliveries=(
            DeliverySeries(cluster="c", subscription="audit", delivered=rates, p50_ms=latencies, p99_ms=latencies),
        ),
        samples=tuple(
            SampleSeries(source=f"node:{node}", metric="bytes_written", values=tuple(map(float, rates)))
            for node in nodes
        ),
        owners=(
            OwnerChange(topic="t", at=start, owner=nodes[0]),
            OwnerChange(topic="t", at=start + 43_000_000, owner=nodes[-1]),
        ),
    )
