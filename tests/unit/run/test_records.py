"""Records: what is left is read back as it was, and what breaks its model is refused with a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from brokerproof.errors import MachineError, RunError
from brokerproof.experiment.fault import ClientMoment
from brokerproof.run.directory import Run
from brokerproof.run.records import (
    ClientEpoch,
    ClientEpochs,
    ClientOrder,
    ClientRecordRead,
    ClientState,
    ClusterHandover,
    ClusterKept,
    ClusterReuse,
    ClustersConfigured,
    ConsumerEnd,
    ConsumersStop,
    EarlyEnd,
    EpochRead,
    FaultEffective,
    FaultsUndone,
    FaultTargets,
    FoundRate,
    LoadEnd,
    LoadRates,
    LogRead,
    LogsRead,
    MissedRate,
    MissedRates,
    NotificationAttempt,
    ObservationsRequested,
    ObservationsWritten,
    PhaseTimes,
    ProducerEnd,
    RateStep,
    Record,
    ReplicationDrain,
    ReplicationDrains,
    RunReleased,
    SealedFile,
    StepProblem,
    StepSeconds,
    SubscriptionDrain,
    SubscriptionDrains,
    TablesDeletion,
    TableSeal,
    TimelineProcess,
    WallClockNote,
    WallClockStep,
    name_file,
    read_record,
    record_keys,
    remove_record,
    write_record,
)

PRODUCER = ProducerEnd(
    task=0, producer="eu-p0", scheduled=10, acked=7, failed=1, unknown=2, problem="it was cut off", at=5
)
LOG = LogRead(
    task=1, cluster="eu", topic="t", partition=-1, end="3:10", read_to_end=False, why="no broker answers", messages=None
)
DRAIN = SubscriptionDrain(cluster="eu", topic="t", partition=0, subscription="audit", drained=True, backlog=0, why="0")
WAY = ReplicationDrain(topic="t", sender="eu", receiver="us", drained=False, backlog=None, why="no broker answers")

EVERY_KIND: list[Record] = [
    StepSeconds(step="load", started_at=1, finished_at=2),
    StepProblem(step="load", problem="no slots"),
    NotificationAttempt(rule=0, notifier="a.Notifier", sent=False, problem="ConnectionError", at=1),
    ClusterReuse(reused=False, why="broker-1 is frozen", at=1),
    ClustersConfigured(at=1, restarted=("broker-1",)),
    ClientOrder(client="load-0", number=1, state=ClientState.KILLED, fault="f", moment=ClientMoment.IN_BATCH, at=1),
    ClientEpochs(
        client="load-0",
        epochs=(
            ClientEpoch(epoch=0, started_at=1, ready_at=2, ended_at=3, fault="f"),
            ClientEpoch(epoch=1, started_at=4),
        ),
        followed=1,
        state=ClientState.KILLED,
        evidence="process 7 was ended by SIGKILL",
        over=False,
        at=5,
    ),
    RunReleased(at=1),
    MissedRates(
        process="p-0",
        times=(MissedRate(begin=1, end=2, due=10, acked=1, pushed_back_s=0.5, no_time_s=0.0, contended_s=0.1),),
        at=2,
    ),
    LoadRates(
        steps=(RateStep(at=2, rate=1000.0),),
        found=FoundRate(rate=900, held=1000, missed=1120, busy=97.5),
        at=1,
    ),
    ClusterKept(at=1, until=2),
    ClusterHandover(at=3),
    TablesDeletion(why="after 30 days", at=1),
    TimelineProcess(pid=7, created=1.5, host="here"),
    ObservationsRequested(at=1),
    ObservationsWritten(at=1),
    PhaseTimes(steady_at=1, impact_at=2, recovery_at=3, ends_at=4),
    FaultEffective(fault="eu_destroyed", at=1),
    FaultTargets(fault="eu_destroyed", targets=("broker-1",), known_at=1, why="no broker answers", at=20),
    EarlyEnd(why="break_it failed", at=1),
    TableSeal(table="stored", files=(SealedFile(name="part-0.parquet", rows=3, size=100, checksum="ab"),), at=1),
    WallClockNote(process="load-0", boot_id="b", at=2, lead_us=-3, steps=(WallClockStep(at=1, size_us=2_000_000),)),
    FaultsUndone(undone=False, problems=("eu_destroyed was not undone",), at=1),
    PRODUCER,
    LoadEnd(finished=False, why="it was cut off", scheduled=10, producers=(PRODUCER,), at=6),
    ConsumerEnd(task=0, consumer="audit-c0", delivered=7, problem=None, at=5),
    ClientRecordRead(client="load-0", epochs=(EpochRead(epoch=0, segments=3, rows=7, missing=(1,)),), at=5),
    ConsumersStop(at=1),
    SubscriptionDrains(subscriptions=(DRAIN,), at=1),
    ReplicationDrains(drains=(WAY,), at=1),
    LOG,
    LogsRead(started_at=1, finished_at=2, logs=(LOG,)),
]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(str(tmp_path))


def key_of(record: Record) -> Any:
    return None if record.KEY is None else getattr(record, record.KEY)


def plant(run: Run, name: str, content: str) -> None:
    state = Path(run.path("state"))
    state.mkdir(exist_ok=True)
    (state / name).write_text(content)


def test_a_file_is_named_after_its_class() -> None:
    assert name_file(FaultsUndone) == "faults_undone.json"
    assert name_file(TableSeal, "stored") == "table_seal-stored.json"


@pytest.mark.parametrize("record", EVERY_KIND, ids=lambda record: type(record).__name__)
def test_a_record_is_read_as_it_was_left(run: Run, record: Record) -> None:
    assert read_record(run, type(record), key_of(record)) is None
    write_record(run, record)
    assert read_record(run, type(record), key_of(record)) == record
    # Nothing half-written stays beside it.
    (file,) = Path(run.path("state")).iterdir()
    assert json.loads(file.read_text())["version"] == record.VERSION


def test_every_kind_is_tried_here() -> None:
    assert {type(record) for record in EVERY_KIND} == {
        kind for kind in Record.__subclasses__() if kind.__module__ == Record.__module__
    }


def test_two_kinds_never_share_a_file(run: Run) -> None:
    for record in EVERY_KIND:
        write_record(run, record)
    assert len(list(Path(run.path("state")).iterdir())) == len(EVERY_KIND)


def test_a_later_record_takes_the_place_of_the_earlier_one(run: Run) -> None:
    write_record(run, RunReleased(at=1))
    write_record(run, RunReleased(at=2))
    assert read_record(run, RunReleased) == RunReleased(at=2)


def test_records_of_a_kind_are_listed_by_their_keys_and_removed_one_by_one(run: Run) -> None:
    assert record_keys(run, StepProblem) == []
    for step in ("read_back", "load"):
        write_record(run, StepProblem(step=step, problem="no slots"))
    write_record(run, StepSeconds(step="verify", started_at=1, finished_at=2))
    assert record_keys(run, StepProblem) == ["load", "read_back"]
    remove_record(run, StepProblem, "load")
    remove_record(run, StepProblem, "load")
    assert record_keys(run, StepProblem) == ["read_back"]


def test_a_key_is_given_where_a_kind_has_one_and_nowhere_else(run: Run) -> None:
    with pytest.raises(TypeError, match="StepProblem needs its step"):
        read_record(run, StepProblem)
    with pytest.raises(TypeError, match="LoadEnd has no key"):
        read_record(run, LoadEnd, "load")


# Refusals


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param("", "Expecting value", id="empty"),
        pytest.param('{"undone": true', "delimiter", id="half a file"),
        pytest.param("[]", "it holds no object", id="a list"),
        pytest.param('{"version": 1, "undone": true, "at": 1}', "`problems` is missing", id="a field missing"),
        pytest.param(
            '{"version": 1, "undone": "yes", "problems": [], "at": 1}',
            "`undone` input should be a valid boolean",
            id="a word for a bool",
        ),
        pytest.param(
            '{"version": 1, "undone": 1, "problems": [], "at": 1}',
            "`undone` input should be a valid boolean",
            id="a number for a bool",
        ),
        pytest.param(
            '{"version": 1, "undone": true, "problems": [7], "at": 1}', "`problems.0` input should", id="inside a list"
        ),
        pytest.param(
            '{"version": 1, "undone": true, "problems": [], "at": 1, "fine": true}',
            "`fine` extra inputs are not permitted",
            id="an unknown field",
        ),
    ],
)
def test_a_record_that_breaks_its_model_is_refused(run: Run, content: str, said: str) -> None:
    plant(run, "faults_undone.json", content)
    with pytest.raises(RunError) as refused:
        read_record(run, FaultsUndone)
    assert str(refused.value).startswith(f"{run.path('state', 'faults_undone.json')} is damaged: ")
    assert said in str(refused.value)


@pytest.mark.parametrize(("version", "found"), [('"version": 2, ', "2"), ("", "None")])
def test_a_record_of_another_version_is_refused(run: Run, version: str, found: str) -> None:
    plant(run, "run_released.json", f'{{{version}"at": 1}}')
    said = rf"run_released.json has version {found} of its model, .* reads version 1; use the Broker"
    with pytest.raises(RunError, match=said):
        read_record(run, RunReleased)


def test_what_is_no_text_is_refused(run: Run) -> None:
    plant(run, "run_released.json", "")
    Path(run.path("state", "run_released.json")).write_bytes(b"\xff\xfe{}")
    with pytest.raises(RunError, match=r"run_released.json is damaged: .*utf-8"):
        read_record(run, RunReleased)


def test_a_record_that_cannot_be_written_is_reported(run: Run) -> None:
    Path(run.path("state")).write_text("a file where the directory has to be")
    with pytest.raises(MachineError, match=r"state/run_released.json cannot be written"):
        write_record(run, RunReleased(at=1))


def test_what_is_not_as_its_model_says_is_never_written() -> None:
    with pytest.raises(ValueError, match="undone"):
        FaultsUndone(undone="no", problems=(), at=1)  # type: ignore[arg-type]
