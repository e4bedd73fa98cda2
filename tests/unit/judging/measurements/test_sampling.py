"""The longest gap between samples: each source is looked at by itself, and the worst one is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from brokerproof.experiment.scenario import Bound
from brokerproof.run.records import PhaseTimes, SubscriptionDrains
from brokerproof_judging.measurements.measured_values import Estimate
from brokerproof_judging.measurements.run_times import read_run_times
from brokerproof_judging.measurements.samples import list_expected_series, read_samples
from brokerproof_judging.measurements.sampling import measure_sampling_gap

from ..history import REPLICATED, SECOND, START, TOPIC, History

TIMELINE = {"steady_at": 0, "impact_at": 20, "recovery_at": 60, "ends_at": 80}
BOOKIES = [f"bookie-{region}-{number}-main" for region in ("eu", "us") for number in (1, 2)]
BROKERS = [name.replace("bookie", "broker") for name in BOOKIES]
BOOKIE = BOOKIES[0]

Silence = tuple[str, str, int, int]


def list_sampled(partitions: int) -> list[tuple[str, str]]:
    """What is sampled all the time."""
    owners = [f"owner:{number}" for number in range(partitions)] or ["owner"]
    return [
        *(("cluster:main", metric) for metric in ("alive:broker", "alive:bookie", "under_replicated")),
        *((f"topic:{TOPIC}", metric) for metric in [*owners, "published"]),
        *((f"node:{bookie}", "bytes_read") for bookie in BOOKIES),
    ]


def plant(*silences: Silence, partitions: int = 0) -> History:
    """Everything is sampled once a second, except what is silent from one second to another, both included."""
    history = History(workload={"partitions": partitions})
    history.leave(PhaseTimes(**{name: START + second * SECOND for name, second in TIMELINE.items()}))
    history.leave(SubscriptionDrains(subscriptions=(), at=START + 80 * SECOND))
    for source, metric in list_sampled(partitions):
        away = [range(first, last + 1) for *key, first, last in silences if key == [source, metric]]
        for second in range(81):
            if not any(second in seconds for seconds in away):
                observe(history, second, source, metric)
    return history


def observe(history: History, second: float, source: str, metric: str, value: str | None = "1") -> None:
    at = START + int(second * SECOND)
    history.observations.append({"at": at, "source": source, "metric": metric, "value": value})


def fault(history: History, kind: str, targets: list[str], **states: float) -> None:
    for state, second in states.items():
        row = {"fault": f"{kind}_{targets[0]}", "kind": kind, "targets": targets, "state": state}
        history.faults.append({**row, "at": START + int(second * SECOND)})


def measure(history: History, directory: Path) -> Estimate:
    run = history.write(directory)
    measured = measure_sampling_gap(run, read_run_times(run), read_samples(run))
    assert (measured.metric, measured.subject) == ("sampling_gap_s", "run")
    return measured.estimate


def test_what_is_always_answered_has_the_gap_of_the_interval(tmp_path: Path) -> None:
    estimate = measure(plant(), tmp_path / "run")
    assert estimate.value == 1.0
    assert estimate.evidence.startswith("the worst of each kind of source: ")


@pytest.mark.parametrize(("source", "metric"), list_sampled(0))
def test_each_source_and_metric_is_looked_at_by_itself_and_the_worst_is_named(
    tmp_path: Path, source: str, metric: str
) -> None:
    """A cluster has three samplers: two that answer do not hide the one that does not."""
    estimate = measure(plant((source, metric, 31, 40)), tmp_path / "run")
    assert estimate.value == 11.0
    assert estimate.evidence.startswith(f"the worst of each kind of source: {source} {metric} 11 s, ")


def test_each_partition_is_looked_at_by_itself(tmp_path: Path) -> None:
    assert measure(plant(partitions=2), tmp_path / "sampled").value == 1.0
    estimate = measure(plant((f"topic:{TOPIC}", "owner:1", 31, 40), partitions=2), tmp_path / "silent")
    assert (estimate.value, "owner:1 11 s" in estimate.evidence) == (11.0, True)


@pytest.mark.parametrize("source", ["cluster:main alive:bookie", f"topic:{TOPIC} owner", f"node:{BOOKIE} bytes_read"])
def test_a_source_that_never_answered_is_named_and_its_gap_is_not_known(tmp_path: Path, source: str) -> None:
    name, metric = source.rsplit(" ", 1)
    estimate = measure(plant((name, metric, 0, 80)), tmp_path / "run")
    assert estimate == Estimate(value=None, evidence=f"{source} was never sampled in that time")


@pytest.mark.parametrize(("value", "gap"), [(None, 11.0), ("1", 1.0)])
def test_a_row_without_a_value_is_no_sample(tmp_path: Path, value: str | None, gap: float) -> None:
    history = plant((f"topic:{TOPIC}", "owner", 31, 40))
    for second in range(31, 41):
        observe(history, second, f"topic:{TOPIC}", "owner", value)
    assert measure(history, tmp_path / "run").value == gap


@pytest.mark.parametrize(
    ("kind", "states", "gap"),
    [
        ("kill", {"effective": 30.5, "recovered": 40.5}, 1.0),
        ("pause", {"effective": 30.5, "recovered": 40.5}, 1.0),
        # From 30 s to its effect, and from its recovery to 41 s: it was up.
        ("kill", {"effective": 33, "recovered": 37}, 7.0),
        # It never took effect.
        ("kill", {"injecting": 30}, 11.0),
        # Its nodes go on answering.
        ("partition", {"effective": 30.5, "recovered": 40.5}, 11.0),
    ],
)
def test_a_node_need_not_answer_while_a_fault_keeps_it_down(
    tmp_path: Path, kind: str, states: dict[str, float], gap: float
) -> None:
    history = plant((f"node:{BOOKIE}", "bytes_read", 31, 40))
    fault(history, kind, [BOOKIE], **states)
    assert measure(history, tmp_path / "run").value == gap


def test_another_node_has_to_answer_meanwhile(tmp_path: Path) -> None:
    history = plant((f"node:{BOOKIES[1]}", "bytes_read", 31, 40))
    fault(history, "kill", [BOOKIE], effective=30, recovered=41)
    assert measure(history, tmp_path / "run").value == 11.0


def test_a_node_that_is_gone_for_good_need_not_answer_unless_it_is_started(tmp_path: Path) -> None:
    history = plant((f"node:{BOOKIE}", "bytes_read", 31, 80))
    fault(history, "kill", [BOOKIE], effective=30)
    assert measure(history, tmp_path / "gone").value == 1.0
    fault(history, "start", [BOOKIE], effective=60)
    assert measure(history, tmp_path / "started").value == 20.0


@pytest.mark.parametrize(
    ("nodes", "gap"), [(BROKERS, 1.0), (BOOKIES, 1.0)] + [(sorted({*BROKERS} - {each}), 11.0) for each in BROKERS]
)
def test_a_cluster_need_not_answer_while_all_that_serve_or_all_that_store_are_down(
    tmp_path: Path, nodes: list[str], gap: float
) -> None:
    history = plant(("cluster:main", "alive:broker", 31, 40), (f"topic:{TOPIC}", "published", 31, 40))
    fault(history, "kill", nodes, effective=30, recovered=41)
    assert measure(history, tmp_path / "run").value == gap


@pytest.mark.parametrize(("drained", "gap"), [(None, 1.0), (70, 1.0), (90, 10.0)])
def test_samples_are_taken_until_load_and_consuming_have_ended(tmp_path: Path, drained: int | None, gap: float) -> None:
    """The last samples are those of 80 s, when the load ends."""
    history = plant()
    history.records[SubscriptionDrains] = None
    if drained is not None:
        history.leave(SubscriptionDrains(subscriptions=(), at=START + drained * SECOND))
    assert measure(history, tmp_path / "run").value == gap


@pytest.mark.parametrize(
    ("seconds", "gap"), [((60, 61, 66, 67), 5.0), ((0, 7), 7.0), ((-9, 1), 1.0), ((75, 80), 1.0), ((40,), 1.0)]
)
def test_a_subscription_that_moves_counts_while_it_is_there(
    tmp_path: Path, seconds: tuple[int, ...], gap: float
) -> None:
    history = plant()
    for second in seconds:
        observe(history, second, f"topic:{TOPIC}", "backlog:moved")
    assert measure(history, tmp_path / "run").value == gap


def test_of_a_gap_only_the_times_between_two_faults_count(tmp_path: Path) -> None:
    history = plant((f"node:{BOOKIE}", "bytes_read", 31, 40))
    fault(history, "pause", [BOOKIE], effective=36, recovered=39)
    fault(history, "kill", [BOOKIE], effective=31, recovered=34)
    # From 30 to 31 s, from 34 to 36 s and from 39 to 41 s.
    assert measure(history, tmp_path / "run").value == 5.0


@pytest.mark.parametrize(("silent", "gap"), [("main", 1.0), ("other", 11.0)])
def test_a_topic_need_not_answer_while_its_own_cluster_is_down(tmp_path: Path, silent: str, gap: float) -> None:
    workload = {"namespace": REPLICATED, "produce_on": ["main", "other"]}
    history = History(clusters=("main", "other"), workload=workload)
    history.leave(PhaseTimes(**{name: START + second * SECOND for name, second in TIMELINE.items()}))
    run = history.write(tmp_path / "expected")
    for source, metric in list_expected_series(run):
        for second in range(81):
            if not (source.endswith(f"@{silent}") and 31 <= second <= 40):
                observe(history, second, source, metric)
    fault(history, "kill", BROKERS, effective=30, recovered=41)
    assert measure(history, tmp_path / "run").value == gap


def test_a_cluster_without_storing_nodes_has_to_answer(tmp_path: Path) -> None:
    history = plant(("cluster:main", "alive:broker", 31, 40))
    main = history.topology.clusters["main"]
    nodes = {name: node for name, node in main.nodes.items() if name not in BOOKIES}
    clusters = {"main": main.model_copy(update={"nodes": nodes})}
    history.topology = history.topology.model_copy(update={"clusters": clusters})
    assert measure(history, tmp_path / "run").value == 11.0


@pytest.mark.parametrize("key", ["sampling_gap_s", "sampling_gap_s/run"])
@pytest.mark.parametrize(("maximum", "value"), [(5, None), (19.9, None), (20, 20.0), (30, 20.0)])
def test_a_gap_in_samples_is_no_failure_of_the_system(
    tmp_path: Path, key: str, maximum: float, value: float | None
) -> None:
    history = plant(("cluster:main", "under_replicated", 31, 49))
    bounds = {key: Bound(max=maximum)}
    history.scenario = history.scenario.model_copy(update={"bounds": bounds})
    estimate = measure(history, tmp_path / "run")
    assert estimate.value == value
    assert ("the system is not to blame" in estimate.evidence) is (value is None)
