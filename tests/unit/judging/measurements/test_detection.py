"""When a failure was noticed, and when failed nodes were healthy again; both need nodes that do not go on serving."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from brokerproof.run.directory import Run
from brokerproof_judging.measurements.failover import measure_detection, measure_node_recovery
from brokerproof_judging.measurements.measured_values import Estimate
from brokerproof_judging.measurements.run_times import EffectiveFault, RunTimes, Span
from brokerproof_judging.measurements.samples import Samples
from builders import make_run

SECOND = 1_000_000
BOOKIE = "bookie-eu-1"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path / "run", "sync_bookie_loss")


def sample(run: Run, last_alive_s: int) -> Samples:
    """The list of bookies every second of 60, from which the target is gone after some of them."""
    (cluster,) = run.topology.clusters
    others = [name for name, node in run.topology.nodes.items() if node.role == "bookie" and name != BOOKIE]
    values = [
        (second * SECOND, json.dumps([*others, *([BOOKIE] if second <= last_alive_s else [])])) for second in range(60)
    ]
    return Samples(series={(f"cluster:{cluster}", "alive:bookie"): values})


def make_fault(*, leaves_nodes: bool = False, healed_s: int | None = None, back_s: int | None = None) -> EffectiveFault:
    span = Span(start_us=0, end_us=60 * SECOND)
    return EffectiveFault(
        name="f",
        targets=(BOOKIE,),
        span=span,
        client_span=span,
        healed_us=None if healed_s is None else healed_s * SECOND,
        recovered_us=None if back_s is None else back_s * SECOND,
        leaves_nodes=leaves_nodes,
    )


@pytest.mark.parametrize("leaves_nodes", [False, True])
def test_a_node_that_left_the_list_was_noticed_whatever_the_fault(run: Run, leaves_nodes: bool) -> None:
    assert measure_detection(run, sample(run, 7), make_fault(leaves_nodes=leaves_nodes)).value == 8


def test_a_failure_that_nobody_noticed_took_at_least_until_the_last_sample(run: Run) -> None:
    found = measure_detection(run, sample(run, 60), make_fault(leaves_nodes=False))
    assert (found.value, found.at_least) == (59, True)
    assert found.evidence == "a target was still listed alive by the last sample"


def test_a_target_that_no_cluster_lists_is_not_missed(run: Run) -> None:
    (metadata, *_) = (name for name, node in run.topology.nodes.items() if node.role == "metadata")
    found = measure_detection(run, sample(run, 7), replace(make_fault(), targets=(metadata, "no-node")))
    assert found == Estimate(value=None, evidence="no target is a bookie or a broker, and others are listed nowhere")


def test_where_the_nodes_go_on_serving_there_is_nothing_to_notice(run: Run) -> None:
    found = measure_detection(run, sample(run, 60), make_fault(leaves_nodes=True))
    assert (found.value, found.evidence) == (
        None,
        "the fault leaves its nodes in service, so that there is none to miss",
    )


@pytest.mark.parametrize(
    ("fault", "others_down", "value", "why"),
    [
        (make_fault(healed_s=20, back_s=34), [], 14, "passed its health check"),
        (make_fault(healed_s=20, back_s=34), [(10, 34)], 14, "passed its health check"),
        (make_fault(healed_s=20, back_s=34), [(30, 50)], None, f"another fault kept {BOOKIE} down"),
        (make_fault(healed_s=20), [], None, "were not healthy again"),
        (make_fault(), [], None, "was not healed"),
        (make_fault(healed_s=20, back_s=34, leaves_nodes=True), [], None, "leaves its nodes in service"),
    ],
)
def test_the_time_until_healed_nodes_are_healthy(
    fault: EffectiveFault, others_down: list[tuple[int, int]], value: float | None, why: str
) -> None:
    down = {BOOKIE: [Span(start_us=start * SECOND, end_us=end * SECOND) for start, end in others_down]}
    found = measure_node_recovery(RunTimes(down=down), fault)
    assert (found.value, why in found.evidence) == (value, True)


def test_a_target_that_no_fault_kept_down_needs_no_list_of_such_times() -> None:
    assert measure_node_recovery(RunTimes(), make_fault(healed_s=20, back_s=34)).value == 14
