"""States at the end, and owners in their regions: only answers count, and only those after the last undo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.records import FaultsUndone, PhaseTimes
from brokerproof_judging.measurements.measured_values import Estimate, make_measurements
from brokerproof_judging.measurements.placement import (
    measure_local_reads,
    measure_owner_regions,
    measure_spread,
    measure_under_replication,
)
from brokerproof_judging.measurements.run_times import read_run_times
from brokerproof_judging.measurements.samples import read_samples

from ..history import SECOND, START, TOPIC, History

EU, US = "broker-eu-1-main", "broker-us-1-main"
KILL = {"name": "kill", "kind": "kill", "targets": {"nodes": [EU]}}
# The fault is injected at 20 s and undone at 70 s, in the recovery phase.
TIMELINE = {"steady_at": 0, "impact_at": 20, "recovery_at": 60, "ends_at": 90}
UNDONE = 70


def plant(
    *,
    healed: bool = True,
    permanent: bool = False,
    partitions: int = 0,
    grows_to: int | None = None,
    **scenario: Any,
) -> History:
    history = History(
        workload={"partitions": partitions, "grows_to": grows_to},
        faults=[{**KILL, "permanent": permanent}],
        owner={"steady": "eu", "recovery": "us"},
        **scenario,
    )
    states = {"injecting": 19, "effective": 20, **({"recovered": UNDONE} if healed else {})}
    for state, second in states.items():
        row = {"fault": "kill", "kind": "kill", "targets": [EU], "state": state}
        history.faults.append({**row, "at": START + second * SECOND})
    history.leave(PhaseTimes(**{name: START + second * SECOND for name, second in TIMELINE.items()}))
    return history


def observe(history: History, source: str, metric: str, *values: tuple[int, str | None]) -> None:
    for second, value in values:
        row = {"at": START + second * SECOND, "source": source, "metric": metric, "value": value}
        history.observations.append(row)


def under_replicated(run: Run) -> Estimate:
    return measure_under_replication(run, read_run_times(run), read_samples(run)).estimate


@pytest.mark.parametrize(
    ("second", "value", "evidence"),
    [
        (UNDONE + 1, 3.0, "last sample: main 3"),
        # A sample that arrived with the undo was asked for before it.
        (UNDONE, None, "main was not sampled after the last fault was undone"),
        (UNDONE - 1, None, "main was not sampled after the last fault was undone"),
    ],
)
def test_the_end_is_known_from_a_sample_after_the_last_undo(
    tmp_path: Path, second: int, value: float | None, evidence: str
) -> None:
    history = plant()
    observe(history, "cluster:main", "under_replicated", (10, "0"), (second, "3"))
    assert under_replicated(history.write(tmp_path / "run")) == Estimate(value=value, evidence=evidence)


# A cluster is silent after more than five seconds without a sample.
@pytest.mark.parametrize(("last", "value"), [(80, 3.0), (81, 3.0), (90, None)])
def test_a_cluster_that_was_silent_at_the_end_has_no_state_there(
    tmp_path: Path, last: int, value: float | None
) -> None:
    history = plant()
    observe(history, "cluster:main", "under_replicated", (76, "3"))
    observe(history, f"topic:{TOPIC}", "published", (last, "1"))
    estimate = under_replicated(history.write(tmp_path / "run"))
    assert estimate.value == value
    assert ("in the last 14 s" in estimate.evidence) is (value is None)


@pytest.mark.parametrize(("second", "value"), [(5, None), (61, 3.0)])
def test_without_a_fault_the_end_is_known_from_a_sample_of_the_last_phase(
    tmp_path: Path, second: int, value: float | None
) -> None:
    history = History()
    history.leave(PhaseTimes(**{name: START + at * SECOND for name, at in TIMELINE.items()}))
    observe(history, "cluster:main", "under_replicated", (second, "3"))
    assert under_replicated(history.write(tmp_path / "run")).value == value


def test_a_fault_that_is_permanent_is_settled_when_it_took_effect(tmp_path: Path) -> None:
    history = plant(healed=False, permanent=True)
    observe(history, "cluster:main", "under_replicated", (21, "1"))
    assert under_replicated(history.write(tmp_path / "run")).value == 1.0


def test_without_a_proven_undo_no_state_at_the_end_is_known(tmp_path: Path) -> None:
    history = plant()
    observe(history, "cluster:main", "under_replicated", (100, "0"))
    record_copies(history, 100)
    history.leave(FaultsUndone(undone=False, problems=("it does not start",), at=START))
    run = history.write(tmp_path / "run")
    why = "nothing proves that every fault was undone: it does not start"
    assert under_replicated(run) == Estimate(value=None, evidence=why)
    assert spread(run)["end"] == Estimate(value=None, evidence=why)


def test_of_two_clusters_both_are_sampled_after_the_last_undo(tmp_path: Path) -> None:
    history = plant(clusters=("main", "other"))
    observe(history, "cluster:main", "under_replicated", (80, "1"))
    observe(history, "cluster:other", "under_replicated", (60, "1"))
    run = history.write(tmp_path / "silent")
    assert under_replicated(run).evidence == "other was not sampled after the last fault was undone"
    observe(history, "cluster:other", "under_replicated", (80, "1"))
    assert under_replicated(history.write(tmp_path / "sampled")).value == 2.0


def record_copies(history: History, second: int, *partitions: int, moment: str = "end") -> None:
    for partition in partitions or (-1,):
        history.copies.append(
            {
                **{"cluster": "main", "topic": TOPIC, "partition": partition, "at": START + second * SECOND},
                **{"moment": moment, "segment": 5, "first_offset": 0},
                **{"regions": ["eu"], "regions_required": ["eu", "us"]},
            }
        )


def spread(run: Run) -> dict[str, Estimate]:
    return {each.subject: each.estimate for each in measure_spread(run, read_run_times(run))}


def test_copies_at_the_end_are_those_that_were_asked_for_after_the_last_undo(tmp_path: Path) -> None:
    history = plant()
    record_copies(history, 15, moment="before kill")
    record_copies(history, UNDONE)
    found = spread(history.write(tmp_path / "run"))
    assert {moment: estimate.value for moment, estimate in found.items()} == {"before kill": 1.0, "end": 1.0}


def test_copies_that_were_asked_for_earlier_say_nothing_of_the_end(tmp_path: Path) -> None:
    history = plant()
    record_copies(history, UNDONE - 1)
    why = "the copies of main were asked for before the last fault was undone"
    assert spread(history.write(tmp_path / "run")) == {"end": Estimate(value=None, evidence=why)}


def test_copies_of_which_some_were_asked_for_before_the_last_undo_say_nothing_of_the_end(tmp_path: Path) -> None:
    history = plant()
    # A step that is repeated records the copies of a log twice.
    record_copies(history, UNDONE - 1)
    record_copies(history, UNDONE + 1)
    why = "the copies of main were asked for before the last fault was undone"
    assert spread(history.write(tmp_path / "run")) == {"end": Estimate(value=None, evidence=why)}


@pytest.mark.parametrize(("partitions", "value"), [((0, 1, 2), 3.0), ((0, 2), None), ((), None)])
def test_the_copies_of_every_partition_are_recorded_at_the_end(
    tmp_path: Path, partitions: tuple[int, ...], value: float | None
) -> None:
    history = plant(partitions=3)
    record_copies(history, 15, 0, 1, 2, moment="before kill")
    if partitions:
        record_copies(history, 95, *partitions)
    found = spread(history.write(tmp_path / "run"))
    assert (found["before kill"].value, found["end"].value) == (3.0, value)
    if value is None:
        missing = f"main, partition {1 if partitions else 0}"
        assert found["end"].evidence == f"where the copies are at the end was not recorded for {missing}"


def owners(run: Run) -> dict[str, Estimate]:
    measured = measure_owner_regions(run, read_run_times(run), read_samples(run))
    return {each.subject: each.estimate for each in measured}


def test_a_sample_that_names_no_node_is_no_owner_elsewhere(tmp_path: Path) -> None:
    history = plant()
    observe(history, f"topic:{TOPIC}", "owner", (15, EU), (16, None), (17, ""), (18, "10.0.0.9"), (19, EU))
    observe(history, f"topic:{TOPIC}", "owner", (85, US), (86, EU))
    found = owners(history.write(tmp_path / "run"))
    assert found["steady"] == Estimate(value=1.0, evidence="2 of 2 samples in eu")
    assert found["recovery"] == Estimate(value=0.5, evidence="1 of 2 samples in us")


def test_without_any_answer_the_owner_is_not_known(tmp_path: Path) -> None:
    history = plant()
    observe(history, f"topic:{TOPIC}", "owner", (5, EU), (15, ""), (16, None))
    found = owners(history.write(tmp_path / "run"))
    assert {phase: estimate.value for phase, estimate in found.items()} == {"steady": None, "recovery": None}
    assert found["steady"].evidence.startswith(
        f"no sample named the owner of topic:{TOPIC} owner in the last 6.66667 s"
    )


@pytest.mark.parametrize(("answers", "value"), [(("0", "1"), 0.5), (("0",), None)])
def test_the_owner_of_every_partition_is_known(tmp_path: Path, answers: tuple[str, ...], value: float | None) -> None:
    history = plant(partitions=2)
    for number in answers:
        observe(history, f"topic:{TOPIC}", f"owner:{number}", (15, EU if number == "0" else US))
    found = owners(history.write(tmp_path / "run"))["steady"]
    assert found.value == value
    assert value is not None or f"owner of topic:{TOPIC} owner:1" in found.evidence


@pytest.mark.parametrize(("grown", "sampled", "value"), [(True, True, 0.5), (True, False, None), (False, False, 1.0)])
def test_the_owner_of_a_partition_is_known_after_a_fault_has_added_it(
    tmp_path: Path, grown: bool, sampled: bool, value: float | None
) -> None:
    history = plant(partitions=1, grows_to=2)
    if grown:
        row = {"fault": "grown", "kind": "grow", "targets": [EU], "state": "effective", "at": START + 50 * SECOND}
        history.faults.append(row)
    observe(history, f"topic:{TOPIC}", "owner:0", (15, EU), (85, US))
    if sampled:
        observe(history, f"topic:{TOPIC}", "owner:1", (85, EU))
    found = owners(history.write(tmp_path / "run"))
    assert found["recovery"].value == value
    assert value is not None or f"owner of topic:{TOPIC} owner:1" in found["recovery"].evidence
    # In the steady phase, it was not there.
    assert found["steady"].value == 1


@pytest.mark.parametrize(("undone", "value"), [(70, 0.5), (84, 1.0), (84.999999, 1.0), (85, None), (95, 0.5)])
def test_an_undo_in_the_phase_leaves_only_the_samples_after_it(
    tmp_path: Path, undone: float, value: float | None
) -> None:
    history = plant()
    history.faults[-1]["at"] = START + round(undone * SECOND)
    # The last third of the recovery phase begins at 80 s.
    observe(history, f"topic:{TOPIC}", "owner", (79, EU), (84, EU), (85, US))
    assert owners(history.write(tmp_path / "run"))["recovery"].value == value


def test_what_is_not_known_at_the_end_is_null_with_the_bound_in_force(tmp_path: Path) -> None:
    history = plant(bounds={"under_replicated_segments": {"max": 0}})
    run = history.write(tmp_path / "run")
    value = measure_under_replication(run, read_run_times(run), read_samples(run))
    (row,) = make_measurements(run, [value])
    assert (row.value, row.maximum, row.cut_off_by) == (None, 0.0, None)


def test_a_run_that_never_was_steady_needs_a_sample_too(tmp_path: Path) -> None:
    history = History(clusters=("main", "other"))
    observe(history, "cluster:main", "under_replicated", (1, "0"))
    estimate = under_replicated(history.write(tmp_path / "run"))
    assert estimate == Estimate(value=None, evidence="other was not sampled after the last fault was undone")


def test_a_segment_lacks_a_region_if_one_of_its_parts_does(tmp_path: Path) -> None:
    history = plant()
    record_copies(history, UNDONE)
    record_copies(history, UNDONE)
    history.copies[-1].update(first_offset=10, regions=["eu", "us"])
    assert spread(history.write(tmp_path / "run"))["end"] == Estimate(value=1.0, evidence="1 of 1 segments, such as 5")


def test_a_log_without_segments_counts_and_names_none(tmp_path: Path) -> None:
    history = plant()
    record_copies(history, UNDONE)
    history.copies[-1].update(segment=None, regions_required=None)
    assert spread(history.write(tmp_path / "run"))["end"] == Estimate(value=1.0, evidence="1 of 1 segments")


@pytest.mark.parametrize("column", ["at", "moment"])
def test_copies_without_a_time_are_damaged(tmp_path: Path, column: str) -> None:
    history = plant()
    record_copies(history, UNDONE)
    history.copies[-1][column] = None
    with pytest.raises(RunError):
        spread(history.write(tmp_path / "run"))


@pytest.mark.parametrize(
    ("before", "at", "counted"),
    [
        (5, 20, {"steady"}),
        (5, 21, {"impact"}),
        (-5, 0, set()),
        # The logs were read from 100 to 110 s.
        (95, 100, set()),
        (95, 101, {"read_back"}),
        (109, 115, {"read_back"}),
        (110, 115, set()),
    ],
)
def test_bytes_count_for_the_phase_of_their_sample_and_for_a_read_back_that_their_time_touches(
    tmp_path: Path, before: int, at: int, counted: set[str]
) -> None:
    history = plant()
    observe(history, f"topic:{TOPIC}", "owner", (-10, EU))
    observe(history, "node:bookie-eu-1-main", "bytes_read", (before, "0"), (at, "7"))
    found = local_reads(history.write(tmp_path / "run"))
    assert {name for name, (share, _) in found.items() if share == 1.0} == counted
    assert {evidence for name, (_, evidence) in found.items() if name not in counted} <= {"nothing was read from disks"}


def local_reads(run: Run) -> dict[str, tuple[float | None, str]]:
    measured = measure_local_reads(run, read_run_times(run), read_samples(run))
    return {each.subject: (each.estimate.value, each.estimate.evidence) for each in measured}


def test_only_reads_of_known_nodes_count_while_the_owner_is_known(tmp_path: Path) -> None:
    history = plant()
    observe(history, f"topic:{TOPIC}", "owner", (3, EU))
    for node, reads in {"a-stranger": 500, "bookie-eu-1-main": 30, "bookie-us-1-main": 10}.items():
        observe(history, f"node:{node}", "bytes_read", (1, "0"), (2, "100"), (4, str(100 + reads)))
    assert local_reads(history.write(tmp_path / "run"))["steady"] == (0.75, "30 of 40 bytes")


def test_reads_are_local_to_the_owner_that_was_named_last(tmp_path: Path) -> None:
    history = plant()
    observe(history, f"topic:{TOPIC}", "owner", (1, EU), (5, US), (12, EU))
    observe(history, "node:bookie-eu-1-main", "bytes_read", (2, "0"), (4, "30"), (5, "40"), (7, "100"))
    assert local_reads(history.write(tmp_path / "run"))["steady"] == (0.3, "30 of 100 bytes")
