"""The share of the load that each node carries, and the changes of owners, of planted samples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from brokerproof.run.records import PhaseTimes
from brokerproof_judging.measurements.measured_values import Estimate, MeasuredValue
from brokerproof_judging.measurements.node_shares import (
    measure_owned_shares,
    measure_owner_changes,
    measure_written_shares,
)
from brokerproof_judging.measurements.run_times import read_run_times
from brokerproof_judging.measurements.samples import read_samples

from ..history import SECOND, START, TOPIC, History

OLD, OTHER, NEW = "bookie-eu-1-main", "bookie-us-1-main", "bookie-eu-2-main"
UNUSED = "bookie-us-2-main"
FIRST, SECOND_BROKER = "broker-eu-1-main", "broker-eu-2-main"
TIMELINE = {"steady_at": 0, "impact_at": 20, "recovery_at": 60, "ends_at": 80}
# `added` takes effect at 20 s and `moved` at 40 s.
FAULTS = [
    {"name": "added", "kind": "start", "targets": {"nodes": [NEW]}},
    {"name": "moved", "kind": "unload", "targets": {"now": "topic_owner"}, "at_s": 20},
]
BOUNDS = {
    "written_share": {"min": 0},
    "owned_share": {"min": 0},
    "owner_changes": {"min": 0},
}


def plant(*, partitions: int = 0, bounds: dict[str, dict[str, float]] = BOUNDS, effective: bool = True) -> History:
    history = History(faults=FAULTS, bounds=bounds, workload={"partitions": partitions})
    main = history.topology.clusters["main"]
    for name in (NEW, UNUSED):
        main.nodes[name] = main.nodes[name].model_copy(update={"standby": True})
    history.leave(PhaseTimes(**{name: START + second * SECOND for name, second in TIMELINE.items()}))
    if effective:
        for name, kind, second in (("added", "start", 20), ("moved", "unload", 40)):
            row = {"fault": name, "kind": kind, "targets": [NEW], "state": "effective", "at": START + second * SECOND}
            history.faults.append(row)
    return history


def observe(history: History, source: str, metric: str, second: float, value: str | None) -> None:
    at = START + int(second * SECOND)
    history.observations.append({"at": at, "source": source, "metric": metric, "value": value})


def write_bytes(history: History, node: str, *, rate: int, first: int = 0, last: int = 80, count: int = 0) -> None:
    """The counter of a node, sampled once a second from `first` to `last`; it is `count` at the first sample."""
    for second in range(first, last + 1):
        observe(history, f"node:{node}", "bytes_written", second, str(count + rate * (second - first)))


def by_subject(values: Iterator[MeasuredValue]) -> dict[str, Estimate]:
    return {each.subject: each.estimate for each in values}


def measure_written(history: History, directory: Path) -> dict[str, Estimate]:
    run = history.write(directory)
    return by_subject(measure_written_shares(run, read_run_times(run), read_samples(run)))


def plant_growth() -> History:
    """Two bookies write 100 bytes a second. A third one starts at 20 s, and writes 200 bytes a second from 40 s on."""
    history = plant()
    write_bytes(history, OLD, rate=100)
    write_bytes(history, OTHER, rate=100)
    write_bytes(history, NEW, rate=0, first=20, last=39)
    write_bytes(history, NEW, rate=200, first=40)
    return history


def test_a_node_that_joined_writes_its_share_after_the_fault_that_gave_it_work(tmp_path: Path) -> None:
    found = measure_written(plant_growth(), tmp_path / "run")
    # 39 seconds lie between the first and the last sample from 40 s until 80 s.
    assert found[f"{NEW}/moved"] == Estimate(value=0.5, evidence="7800 of 15600 bytes")
    assert found[f"{OLD}/moved"].value == 0.25
    assert found[f"{NEW}/added"] == Estimate(value=0.0, evidence="0 of 3800 bytes")
    assert found[f"{NEW}/steady"].value == 0.0
    assert found[f"{OLD}/steady"].value == 0.5
    assert found[f"{UNUSED}/moved"].value == 0.0


@pytest.mark.parametrize(
    ("silence", "known"), [((39, 45), True), ((39, 46), False), ((50, 70), True), ((74, 81), False)]
)
def test_a_node_that_gave_no_sample_for_long_leaves_every_share_of_its_cluster_unknown(
    tmp_path: Path, silence: tuple[int, int], known: bool
) -> None:
    history = plant_growth()
    first, last = (START + second * SECOND for second in silence)
    history.observations = [
        row for row in history.observations if row["source"] != f"node:{OTHER}" or not first < row["at"] < last
    ]
    found = measure_written(history, tmp_path / "run")
    assert (found[f"{NEW}/moved"].value is not None) is known
    if known:
        # A counter that rises misses nothing while it is not sampled. The first sample of the span may be a late one.
        count = 3400 if silence == (39, 45) else 3900
        assert found[f"{OTHER}/moved"].evidence.startswith(f"{count} of")
    else:
        assert found[f"{NEW}/moved"].evidence == f"{OTHER} was not sampled for more than 5 s"
    # The other spans are not touched.
    assert found[f"{OLD}/steady"].value == 0.5


def test_a_node_on_standby_that_no_fault_starts_needs_no_sample_and_one_that_never_answered_does(
    tmp_path: Path,
) -> None:
    history = plant_growth()
    history.observations = [row for row in history.observations if row["source"] != f"node:{NEW}"]
    found = measure_written(history, tmp_path / "run")
    assert found[f"{NEW}/steady"].value == 0.0
    assert found[f"{OLD}/moved"] == Estimate(value=None, evidence=f"{NEW} was not sampled for more than 5 s")


def measure_restarted(run: Path, *, last: int) -> Estimate:
    """What a node wrote that was sampled until the second `last`, and whose counter began anew before 60 s."""
    history = plant()
    write_bytes(history, OLD, rate=0)
    write_bytes(history, NEW, rate=0, first=20)
    write_bytes(history, OTHER, rate=100, last=last)
    write_bytes(history, OTHER, rate=100, first=60, count=300)
    return measure_written(history, run)[f"{OTHER}/moved"]


def test_a_counter_that_began_anew_counts_from_zero(tmp_path: Path) -> None:
    # 1,900 bytes until 59 s; the restarted process has written 300 until its first sample, and 1,900 more until 79 s.
    assert measure_restarted(tmp_path / "run", last=59).evidence == "4100 of 4100 bytes"


def test_what_was_written_before_a_counter_began_anew_is_unknown_if_no_sample_is_near(tmp_path: Path) -> None:
    assert measure_restarted(tmp_path / "run", last=54).value is None


def test_what_a_started_node_wrote_before_its_first_sample_counts(tmp_path: Path) -> None:
    history = plant()
    history.faults = [{**row, "at": START + 45 * SECOND} for row in history.faults if row["fault"] == "added"]
    write_bytes(history, OLD, rate=100)
    write_bytes(history, OTHER, rate=100)
    write_bytes(history, NEW, rate=0, first=46, count=700)
    assert measure_written(history, tmp_path / "run")[f"{NEW}/impact"].evidence.startswith("700 of ")


@pytest.mark.parametrize("takes_effect", [True, False])
def test_a_node_that_stops_slowly_hides_nothing_of_what_was_written_before(tmp_path: Path, takes_effect: bool) -> None:
    history = plant()
    stop = {"fault": "moved", "kind": "stop", "targets": [OLD]}
    history.faults = [row for row in history.faults if row["fault"] == "added"]
    history.faults.append({**stop, "state": "injecting", "at": START + 30 * SECOND})
    if takes_effect:
        history.faults.append({**stop, "state": "effective", "at": START + 40 * SECOND})
    write_bytes(history, OLD, rate=100, last=30)
    write_bytes(history, OTHER, rate=100)
    write_bytes(history, NEW, rate=0, first=20)
    found = measure_written(history, tmp_path / "run")
    assert found[f"{OLD}/added"] == Estimate(value=0.5, evidence="900 of 1800 bytes")
    # The last that it wrote was not sampled.
    assert found[f"{OLD}/impact"].value is None
    if takes_effect:
        assert found[f"{OLD}/moved"] == Estimate(value=0.0, evidence="0 of 3900 bytes")


def test_a_fault_that_the_next_one_begins_before_has_no_time_of_its_own(tmp_path: Path) -> None:
    history = plant()
    history.faults.append({**history.faults[-1], "state": "injecting", "at": START + 15 * SECOND})
    span = read_run_times(history.write(tmp_path / "run")).spans["added"]
    assert (span.start_us, span.end_us) == (START + 20 * SECOND, START + 20 * SECOND)


def test_without_any_bytes_there_are_no_shares(tmp_path: Path) -> None:
    history = plant()
    for node in (OLD, OTHER):
        write_bytes(history, node, rate=0)
    write_bytes(history, NEW, rate=0, first=20)
    assert measure_written(history, tmp_path / "run")[f"{OLD}/moved"] == Estimate(value=None, evidence="no node wrote")


def test_a_fault_without_an_effect_has_no_shares(tmp_path: Path) -> None:
    history = plant(effective=False)
    for node in (OLD, OTHER):
        write_bytes(history, node, rate=100)
    assert {subject.split("/")[1] for subject in measure_written(history, tmp_path / "run")} == {
        "steady",
        "impact",
        "recovery",
    }


def own(history: History, owners: dict[str, list[tuple[int, int, str | None]]]) -> History:
    """Plant the owner of each partition as (first second, last second, node), sampled once a second."""
    for metric, turns in owners.items():
        for first, last, owner in turns:
            for second in range(first, last + 1):
                observe(history, f"topic:{TOPIC}", metric, second, owner)
    return history


def measure_owners(history: History, directory: Path) -> tuple[dict[str, Estimate], dict[str, Estimate]]:
    run = history.write(directory)
    times, samples = read_run_times(run), read_samples(run)
    return by_subject(measure_owned_shares(run, times, samples)), by_subject(measure_owner_changes(run, times, samples))


def test_an_owner_that_changes_is_counted_in_the_time_in_which_it_changed(tmp_path: Path) -> None:
    moving = [(0, 39, FIRST), (40, 59, SECOND_BROKER), (60, 80, FIRST)]
    history = own(plant(partitions=2), {"owner:0": [(0, 80, FIRST)], "owner:1": moving})
    shares, changes = measure_owners(history, tmp_path / "run")
    assert shares[f"{SECOND_BROKER}/added"].value == 0.0
    assert shares[f"{SECOND_BROKER}/moved"] == Estimate(value=0.25, evidence="20 of 80 samples")
    assert shares[f"{FIRST}/moved"].value == 0.75
    # The change at 40 s is between the last sample before the span and its first sample.
    assert {name: estimate.value for name, estimate in changes.items()} == {
        **{"steady": 0.0, "impact": 1.0, "recovery": 1.0},
        **{"added": 0.0, "moved": 2.0},
    }
    assert changes["moved"].evidence == f"of 2 partitions: 1 from {FIRST} to {SECOND_BROKER}, " + (
        f"1 from {SECOND_BROKER} to {FIRST}"
    )


@pytest.mark.parametrize("answer", [None, "", "10.0.0.1"], ids=["no answer", "nobody", "a stranger"])
def test_a_partition_whose_owner_is_not_known_leaves_shares_and_changes_unknown(
    tmp_path: Path, answer: str | None
) -> None:
    history = own(plant(partitions=2), {"owner:0": [(0, 80, FIRST)], "owner:1": [(0, 39, FIRST), (40, 80, answer)]})
    shares, changes = measure_owners(history, tmp_path / "run")
    why = f"no sample named the owner of topic:{TOPIC} owner:1"
    assert shares[f"{FIRST}/moved"] == changes["moved"] == Estimate(value=None, evidence=why)
    assert (shares[f"{FIRST}/added"].value, changes["added"].value) == (1.0, 0.0)


def test_they_are_measured_only_if_the_scenario_bounds_them(tmp_path: Path) -> None:
    history = plant_growth()
    history.scenario = history.scenario.model_copy(update={"bounds": {}})
    assert measure_written(history, tmp_path / "run") == {}
    assert measure_owners(history, tmp_path / "owners") == ({}, {})


@pytest.mark.parametrize(
    ("first_sample", "steady", "grown"),
    [
        # Until the growth, only the first partition has an owner. Afterwards, each has one.
        (45, 0, 1),
        # No broker named the owner of the new partition after the growth.
        (None, 0, None),
        # A span that the growth ends need not have a sample of the new partition.
        (85, 0, None),
    ],
)
def test_a_partition_that_a_fault_adds_has_an_owner_from_then_on(
    tmp_path: Path, first_sample: int | None, steady: int, grown: int | None
) -> None:
    faults = [{"name": "grown", "kind": "grow", "targets": {"now": "topic_owner"}}]
    history = History(faults=faults, bounds=BOUNDS, workload={"partitions": 1, "grows_to": 2})
    history.leave(PhaseTimes(**{name: START + second * SECOND for name, second in TIMELINE.items()}))
    row = {"fault": "grown", "kind": "grow", "targets": [FIRST], "state": "effective", "at": START + 40 * SECOND}
    history.faults.append(row)
    for second in range(5, 80, 10):
        observe(history, f"topic:{TOPIC}", "owner:0", second, FIRST)
    if first_sample is not None:
        observe(history, f"topic:{TOPIC}", "owner:1", first_sample, FIRST)
        observe(history, f"topic:{TOPIC}", "owner:1", first_sample + 1, SECOND_BROKER)
    run = history.write(tmp_path / "run")
    changes = by_subject(measure_owner_changes(run, read_run_times(run), read_samples(run)))
    assert (changes["steady"].value, changes["grown"].value) == (steady, grown)
    if grown is None:
        assert changes["grown"].evidence == f"no sample named the owner of topic:{TOPIC} owner:1"
    # The growth is in the impact phase, so samples of the new partition count, and none has to be there.
    assert changes["impact"].value == (1 if first_sample == 45 else 0)
    shares = by_subject(measure_owned_shares(run, read_run_times(run), read_samples(run)))
    assert shares[f"{FIRST}/steady"] == Estimate(value=1.0, evidence="2 of 2 samples")
    assert shares[f"{SECOND_BROKER}/grown"].value == (None if grown is None else pytest.approx(1 / 6))
