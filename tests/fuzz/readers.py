"""The readers that are fuzzed, and the files that are mutated for them. A child process of the harness imports them.

A reader is made by a function that takes a directory and fills it with what the reader needs. The reader takes the
name of a file and its mutated content, puts it into the file, and yields what users of Brokerproof do with such files.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from brokerproof.bounded_reading import load_yaml
from brokerproof.checks import load_scenario, load_topology
from brokerproof.clients.consuming import complete_deliveries, plan_consumers
from brokerproof.clients.deliveries import ConfirmedAcks
from brokerproof.clients.producing import complete_publishes, plan_producers
from brokerproof.clients.record import RecordReader, RecordWriter, Reservation
from brokerproof.reports.messages.message_life import read_message_life
from brokerproof.reports.pages import Page
from brokerproof.reports.run_page import read_raw_table, render_run_page
from brokerproof.reports.run_report import read_run_report
from brokerproof.results.anomaly_samples import read_anomaly_samples
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.results.story import describe_faults
from brokerproof.run.directory import Run
from brokerproof.run.judgement import Judgement
from brokerproof.run.live_status import read_every_live_status
from brokerproof.run.outcome import Outcome
from brokerproof.run.records import (
    EarlyEnd,
    FaultsUndone,
    FoundRate,
    LoadEnd,
    LoadRates,
    LogRead,
    LogsRead,
    MissedRate,
    MissedRates,
    PhaseTimes,
    ProducerEnd,
    RateStep,
    Record,
    StepProblem,
    SubscriptionDrain,
    SubscriptionDrains,
    name_file,
    read_record,
    write_record,
)
from brokerproof.run.seals import WRITERS, check_seals, seal_tables
from brokerproof.run.table_rows import check_files, collect_rows, count_rows, iterate_rows
from brokerproof.run.tables import SCHEMAS, make_batch
from brokerproof.runtimes.restarts import RestartEvent, RestartRecord, RestartStep
from brokerproof.suites.suite_file import read_suite
from brokerproof.systems.clients import Position
from brokerproof_judging.evidence import Evidence
from brokerproof_judging.measurements.samples import read_samples
from builders import EXPECTATIONS, SCENARIOS, TOPOLOGIES
from planted_runs import plant_run
from reading_child import File, Read, Use

AT = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Family:
    """Files of one format. `list_files` has the files before mutation, as (name, content) in a new directory."""

    list_files: Callable[[Path], list[File]]
    make_reader: Callable[[Path], Read]


@contextmanager
def replaced(file: Path, content: bytes) -> Iterator[None]:
    """Give a file another content for the time of the block."""
    before = file.read_bytes()
    file.write_bytes(content)
    try:
        yield
    finally:
        file.write_bytes(before)


# Users' files


def list_yaml_files(directory: Path) -> list[File]:
    scenarios = [(f"scenarios/{file.name}", file.read_bytes()) for file in sorted(SCENARIOS.glob("*.yaml"))[::4]]
    topologies = [(f"topologies/{file.name}", file.read_bytes()) for file in sorted(TOPOLOGIES.glob("*.yaml"))]
    return scenarios + topologies


def make_yaml_reader(directory: Path) -> Read:
    # Topologies extend each other.
    for shipped in TOPOLOGIES.glob("*"):
        (directory / shipped.name).symlink_to(shipped)

    @contextmanager
    def read(name: str, content: bytes) -> Iterator[list[Use]]:
        file = directory / f"mutated_{Path(name).name}"
        file.write_bytes(content)
        is_scenario = name.startswith("scenarios")
        yield [
            lambda: load_scenario(file, TOPOLOGIES) if is_scenario else load_topology(file.stem, directory),
            lambda: load_yaml(content.decode("utf-8", errors="replace")),
        ]
        file.unlink()

    return read


# A run's directory


def plant_whole_run(directory: Path) -> Run:
    """A run with every kind of file that commands read."""
    run = plant_run(directory / "r1", SCENARIOS / "sync_datacenter_loss.yaml", at=AT, lost=2)
    start = 1_767_225_600_000_000
    place = {"run_id": "r1", "cluster": "c", "topic": "t", "partition": -1}
    seqs = range(3)
    run.append("stored", [{**place, "producer": "p0", "seq": n, "segment": 1, "offset": n} for n in seqs])
    run.append(
        "deliveries",
        [{**place, "producer": "p0", "seq": n, "received_at": start, "subscription": "audit"} for n in seqs],
    )
    sample = {"run_id": "r1", "source": "cluster:mycluster", "metric": "under_replicated"}
    run.append("observations", [{**sample, "at": start + n, "value": str(n)} for n in range(20)])
    restart = {"run_id": "r1", "source": "service_manager:x", "metric": "ended", "value": "1"}
    run.append("observations", [{**restart, "at": start}])
    run.append("copies", [{**place, "at": start, "moment": "end", "segment": n, "holders": ["a", "b"]} for n in seqs])
    judged = {**place, "producer": "p0", "anomalies": ["lost"], "copies": 1, "deliveries": 0}
    run.append("messages", [{**judged, "seq": n} for n in seqs])
    write_record(run, compose_outcome(run))
    write_record(run, PhaseTimes(steady_at=start, impact_at=start, recovery_at=start, ends_at=start))
    write_record(run, FaultsUndone(undone=True, problems=(), at=start))
    write_record(run, EarlyEnd(why="it was cancelled", at=start))
    write_record(run, StepProblem(step="load", problem="it failed"))
    end = ProducerEnd(
        task=0, producer="p0", scheduled=3, acked=3, failed=0, unknown=0, not_sent=0, epoch=0, segments=1,
        standstills=((start, start + 1),), problem=None, at=start,
    )  # fmt: skip
    write_record(run, end)
    write_record(run, LoadEnd(finished=True, why="", scheduled=3, producers=(end,), at=start))
    missed = MissedRate(begin=start, end=start + 1, due=2, acked=1, pushed_back_s=0.5, no_time_s=0.0, contended_s=0.1)
    found = FoundRate(rate=900, held=1000, missed=None, busy=None)
    write_record(run, LoadRates(steps=(RateStep(at=start, rate=900),), found=found, at=start))
    write_record(run, MissedRates(process="p0-0", times=(missed,), at=start))
    log = LogRead(task=0, cluster="c", topic="t", partition=-1, end="1:3", read_to_end=True, why="", messages=3)
    write_record(run, LogsRead(started_at=start, finished_at=start, logs=(log,)))
    drain = SubscriptionDrain(cluster="c", topic="t", partition=-1, subscription="audit", drained=True, why="")
    write_record(run, SubscriptionDrains(subscriptions=(drain,), at=start))
    seal_tables(run, *WRITERS)
    run.write_text("progress/live.json", json.dumps({"phase": "steady", "text": "waits", "faults": [], "at": start}))
    return run


_KINDS: list[type[Record]] = [*Record.__subclasses__(), Outcome]
KINDS = {name_file(kind).removesuffix(".json"): kind for kind in _KINDS}


def list_json_files(directory: Path) -> list[File]:
    run = plant_whole_run(directory)
    files = [f"{run.directory}/run.json"] + [f"{run.directory}/state/{name}" for name in run.list_names("state")]
    files.append(f"{run.directory}/progress/live.json")
    found = [(file.removeprefix(f"{run.directory}/"), Path(file).read_bytes()) for file in files]
    return found + [(f"suites/{file.name}", file.read_bytes()) for file in sorted(EXPECTATIONS.glob("*.json"))]


def make_json_reader(directory: Path) -> Read:
    planted = plant_whole_run(directory)
    suites = directory / "suites"
    shutil.copytree(EXPECTATIONS, suites)

    @contextmanager
    def read(name: str, content: bytes) -> Iterator[list[Use]]:
        file = (directory if name.startswith("suites") else Path(planted.directory)) / name
        with replaced(file, content):
            if name.startswith("suites"):
                yield [lambda: read_suite([str(suites)], file.stem)]
                return
            # The facts of a run are cached.
            run = Run(planted.directory)
            kind, _, key = file.stem.partition("-")
            yield [
                lambda: render_run_page(read_run_report(run), Page()),
                lambda: read_message_life(run, "p0", 1),
                lambda: check_seals(run),
                lambda: list(Evidence.from_run(run).list_problems(run, [])),
                lambda: read_record(run, KINDS[kind], key or None) if kind in KINDS else None,
                lambda: read_every_live_status(run),
            ]

    return read


# Lines of JSON


def list_line_files(directory: Path) -> list[File]:
    file = directory / "restarts.jsonl"
    record = RestartRecord(file)
    for times in range(1, 4):
        for step in RestartStep:
            record.add(RestartEvent(node="broker-eu-1", step=step, at=1_767_225_600_000_000, times=times))
    return [(file.name, file.read_bytes())]


def make_line_reader(directory: Path) -> Read:
    @contextmanager
    def read(name: str, content: bytes) -> Iterator[list[Use]]:
        (directory / name).write_bytes(content)
        yield [RestartRecord(directory / name).read]

    return read


# Clients' records

_TIMES = dict.fromkeys(("scheduled_at", "sent_at", "settled_at", "received_at", "published_at"), 1_767_225_600_000_000)


def plant_segments(directory: Path) -> Run:
    # All messages that a producer can have reserved are made.
    overrides = {"workload.rate": 20}
    run = plant_run(directory / "r1", SCENARIOS / "sync_datacenter_loss.yaml", at=AT, overrides=overrides)
    for table, client in (("publishes", plan_producers(run)[0].client), ("deliveries", plan_consumers(run)[0].client)):
        writer = RecordWriter(run, client, table=table, epoch=0)
        numbers = ("partition", "segment", "offset", "seq", "epoch", "incarnation", "arrival")
        for number in range(2):
            rows = [dict.fromkeys(SCHEMAS[table].names) | dict.fromkeys(numbers, number) | _TIMES for _ in range(5)]
            batch = make_batch(table, rows, {"run_id": "r1", "cluster": "c"})
            answer = ConfirmedAcks(cluster="c", at=1_767_225_600_000_001, positions={number: Position(1, 1)})
            writer.append(batch, [answer])
        writer.reserve(Reservation(until=20, start_at=1_767_225_600.0))
    return run


def list_segment_files(directory: Path) -> list[File]:
    run = plant_segments(directory)
    files = sorted(Path(run.path("clients")).rglob("0-*"))
    return [(str(file.relative_to(run.directory)), file.read_bytes()) for file in files]


def make_segment_reader(directory: Path) -> Read:
    run = plant_segments(directory)
    producer, consumer = plan_producers(run)[0], plan_consumers(run)[0]

    def recover_publishes() -> None:
        reader = RecordReader(run, producer.client, epoch=0)
        for _ in complete_publishes(run, producer, reader, reader.read_rest(), lambda: False):
            pass

    def recover_deliveries() -> None:
        for _ in complete_deliveries(RecordReader(run, consumer.client, epoch=0).read_rest()):
            pass

    @contextmanager
    def read(name: str, content: bytes) -> Iterator[list[Use]]:
        with replaced(Path(run.path(name)), content):
            yield [recover_publishes, recover_deliveries]

    return read


# Tables


def list_table_files(directory: Path) -> list[File]:
    run = plant_whole_run(directory)
    return [
        (f"{table}/{name}", Path(run.table(table), name).read_bytes())
        for table in SCHEMAS
        for name in run.list_files(table)[:1]
    ]


def make_table_reader(directory: Path) -> Read:
    run = plant_whole_run(directory)

    @contextmanager
    def read(name: str, content: bytes) -> Iterator[list[Use]]:
        table = name.partition("/")[0]
        with replaced(Path(run.table(table)) / run.list_files(table)[0], content):
            yield _list_uses(run, table)

    return read


def _list_uses(run: Run, table: str) -> list[Use]:
    uses: list[Use] = [
        lambda: check_files(run, [table]),
        lambda: sum(1 for _ in iterate_rows(run, table)),
        lambda: collect_rows(run, table, []),
        lambda: count_rows(run, table),
        lambda: check_seals(run, [table] if table in WRITERS else []),
        lambda: read_raw_table(run, table),
    ]
    if table in ("faults", "copies", "observations", "anomalies"):
        uses.append(lambda: render_run_page(read_run_report(run), Page()))
    if table in ("publishes", "stored", "deliveries", "messages", "anomalies", "faults"):
        uses.append(lambda: read_message_life(run, "p0", 1))
    if table == "observations":
        uses.append(lambda: read_samples(run))
    if table == "faults":
        uses.append(lambda: describe_faults(run))
    if table == "anomalies":
        counts = read_record(run, Judgement)
        uses.append(lambda: counts and read_anomaly_samples(run, counts.counts, 10))
    return uses


FAMILIES = {
    "yaml": Family(list_files=list_yaml_files, make_reader=make_yaml_reader),
    "json": Family(list_files=list_json_files, make_reader=make_json_reader),
    "lines": Family(list_files=list_line_files, make_reader=make_line_reader),
    "segments": Family(list_files=list_segment_files, make_reader=make_segment_reader),
    "parquet": Family(list_files=list_table_files, make_reader=make_table_reader),
}


def make_every_reader(directory: Path) -> Read:
    """One reader for all families. The name of a file begins with its family."""
    readers = {}
    for family, each in FAMILIES.items():
        (directory / family).mkdir()
        readers[family] = each.make_reader(directory / family)

    @contextmanager
    def read(name: str, content: bytes) -> Iterator[Sequence[Use]]:
        family, _, rest = name.partition("/")
        with readers[family](rest, content) as uses:
            yield uses

    return read


def list_every_file(directory: Path) -> dict[str, list[File]]:
    """The files of each family before mutation."""
    found: dict[str, list[File]] = {}
    for family, each in FAMILIES.items():
        (directory / family).mkdir()
        files = each.list_files(directory / family)
        found[family] = [(f"{family}/{name}", content) for name, content in files]
    return found
