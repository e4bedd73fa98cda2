"""The campaign of `make mutants`: what becomes of a mutant, and what counts."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import mutant_trials
import pytest
import sql_campaign
from brokerproof_judging import run_judging
from brokerproof_judging.messages.message_judging import MessageJudging
from kept_messages import KeptMessages
from mutant_trials import (
    KEPT_MESSAGES,
    TESTS,
    Campaign,
    Fate,
    find_stale_reasons,
    name_survivor,
    read_kills,
    read_results,
    set_survivors_aside,
    summarize,
    write_kills,
    write_result,
)
from sql_campaign import JUDGING, PACKAGES, ROOT, SqlMutant
from sql_mutants import make_mutants, rewrite

from .history import History
from .judged import Judged

EVENTS = "series/sql/events.sql"
ORIGINAL = (JUDGING / EVENTS).read_text(encoding="utf-8")
# Counts 10^15 rows, which takes days.
ENDLESS = "SELECT count(*) FROM range(1000000000) a, range(1000000) b WHERE (a.range + b.range) % 7 = 9"
CHANGED = {
    rewrite(ORIGINAL): Fate.SURVIVED,
    f"{ORIGINAL.rstrip()} LIMIT 0": Fate.TEST,
    "SELECT error('no')": Fate.TEST,
    "SELECT FROM WHERE": Fate.NO_MUTANT,
    "SELECT no_such_column FROM messages": Fate.NO_MUTANT,
    "FROM no_such_table": Fate.NO_MUTANT,
    ENDLESS: Fate.TIME,
}
TRIED = ["a/first", "a/second", "a/third"]
TRY = """
import json, sys
import mutant_trials, sql_campaign

class Tries:
    def pytest_runtestloop(self, session):
        for sql, wait_s, processor_s in json.load(sys.stdin):
            prepare = sql_campaign.change({sys.argv[1]: sql})
            with mutant_trials.Trial(session, session.items, prepare, sql_campaign.REFUSED, processor_s) as trial:
                print("FATE", *trial.conclude(wait_s), sep="|")
        return True

mutant_trials.run_pytest(sys.argv[2:], Tries())
"""


def test_a_mutant_has_the_fate_of_its_first_failed_test(tmp_path: Path) -> None:
    test = "tests/unit/judging/series/test_message_series.py"
    tried = [(sql, 4 if fate is Fate.TIME else 300, 3600) for sql, fate in CHANGED.items()]
    # Here it is the processor time that ends the endless one.
    tried.append((ENDLESS, 300, 4))
    script = tmp_path / "try_mutants.py"
    script.write_text(TRY, encoding="utf-8")
    folder = str(Path(sql_campaign.__file__).parent)
    process = subprocess.run(
        [sys.executable, str(script), EVENTS, test],
        **{"input": json.dumps(tried), "cwd": ROOT, "env": {**os.environ, "PYTHONPATH": folder}},
        **{"capture_output": True, "text": True, "check": False},
    )
    fates = [line.split("|")[1] for line in process.stdout.splitlines() if line.startswith("FATE|")]
    assert fates == [*CHANGED.values(), Fate.TIME], process.stdout + process.stderr


STARTS = """
import subprocess, sys
import mutant_trials

def prepare(session):
    child = subprocess.Popen(["sleep", "60"])
    print("CHILD", child.pid, sep="|", file=open(sys.argv[1], "w"), flush=True)
    session.items[0].runtest = lambda: child.wait()
    return lambda: None

class Tries:
    def pytest_runtestloop(self, session):
        with mutant_trials.Trial(session, session.items, prepare) as trial:
            print("FATE", *trial.conclude(4), sep="|")
        return True

mutant_trials.run_pytest(sys.argv[2:], Tries())
"""


def test_what_the_tests_of_a_mutant_started_ends_with_them(tmp_path: Path) -> None:
    script, noted = tmp_path / "starts.py", tmp_path / "noted"
    script.write_text(STARTS, encoding="utf-8")
    test = "tests/unit/judging/series/test_message_series.py::test_a_run_without_messages_has_no_series"
    environment = {**os.environ, "PYTHONPATH": str(Path(sql_campaign.__file__).parent)}
    command = [sys.executable, str(script), str(noted), test]
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert f"FATE|{Fate.TIME}|" in process.stdout, process.stdout + process.stderr
    child = int(noted.read_text().split("|")[1])
    assert not Path(f"/proc/{child}/cmdline").exists() or not Path(f"/proc/{child}/cmdline").read_bytes()


RECORD = """
import sys
from pathlib import Path
import mutant_trials, sql_campaign

def prepare(session):
    sql_campaign.change({sys.argv[1]: sys.argv[2]})(session)
    return Path(sys.argv[3]).touch

mutant_trials.run_pytest(sys.argv[4:], mutant_trials.Recording(prepare))
"""


@pytest.mark.parametrize(("sql", "is_kept"), [(ORIGINAL, True), ("SELECT error('no')", False)])
def test_nothing_is_kept_of_tests_of_which_one_fails(tmp_path: Path, sql: str, is_kept: bool) -> None:
    script, kept = tmp_path / "record.py", tmp_path / "kept"
    script.write_text(RECORD, encoding="utf-8")
    test = "tests/unit/judging/series/test_message_series.py::test_only_the_home_of_a_message_counts_its_publishing"
    command = [sys.executable, str(script), EVENTS, sql, str(kept), test]
    environment = {**os.environ, "PYTHONPATH": str(Path(sql_campaign.__file__).parent)}
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (process.returncode == 0, kept.exists()) == (is_kept, is_kept), process.stdout + process.stderr


class SecondKills:
    """A trial that ended: the test `a/second` failed if it ran."""

    seconds = 0.0
    orders: ClassVar[list[list[str]]] = []

    def __init__(self, session: Any, items: Any, *_: Any) -> None:
        self.orders.append([item.nodeid for item in items])
        self.answer, end = multiprocessing.Pipe(duplex=False)
        end.close()

    def __enter__(self) -> SecondKills:
        return self

    def __exit__(self, *_: object) -> None: ...

    def conclude(self, limit_s: float) -> tuple[Fate, str]:
        return (Fate.TEST, "a/second") if "a/second" in self.orders[-1] else (Fate.SURVIVED, "")


@pytest.fixture
def try_mutants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[list[str]]]:
    """Return what tries mutants with stand-ins for trials, and returns the tests of each trial."""

    def try_mutants(
        mutants: Mapping[SqlMutant, Sequence[str]], tests: Sequence[str] = TRIED, **options: Any
    ) -> list[list[str]]:
        monkeypatch.setattr(mutant_trials, "Trial", SecondKills)
        monkeypatch.setattr(mutant_trials, "KILLS", tmp_path / "kills.json")
        monkeypatch.setattr(SecondKills, "orders", [])
        session = SimpleNamespace(items=[SimpleNamespace(nodeid=name) for name in tests])
        limits = SimpleNamespace(processes=1, minutes=1, seconds=60)
        campaign = Campaign(mutants, lambda _: lambda _: lambda: None, tmp_path / "new.jsonl", limits, **options)
        assert campaign.pytest_runtestloop(session)
        assert {fate for fate, _ in read_results(tmp_path / "new.jsonl").values()} == {Fate.TEST}
        return SecondKills.orders

    return try_mutants


def make_mutant(file: str, sql: str = "1") -> SqlMutant:
    return SqlMutant(file=file, change="a change", sql=sql)


def test_a_test_that_killed_a_mutant_runs_first_against_the_next_one(try_mutants: Any) -> None:
    mutants = [make_mutant("x", "1"), make_mutant("x", "2"), make_mutant("y")]
    orders = try_mutants(dict.fromkeys(mutants, ()))
    assert orders == [TRIED, ["a/second", "a/first", "a/third"], ["a/second", "a/first", "a/third"]]


def test_the_tests_of_the_changed_file_run_before_others(try_mutants: Any) -> None:
    """Of `evaluation.py`, a test of another file with many kills took longer than all tests of its own file."""
    tests = [*TRIED, "a/test_x.py::one", "a/test_y.py::one"]
    mutants = [PartMutant("f", "1", file="b/x.py"), PartMutant("f", "2", file="b/x.py")]
    assert try_mutants(dict.fromkeys(mutants, ()), tests) == [
        ["a/test_x.py::one", *TRIED, "a/test_y.py::one"],
        ["a/test_x.py::one", "a/second", "a/first", "a/third", "a/test_y.py::one"],
    ]


class NeverEnds(SecondKills):
    """A trial that goes on for ever."""

    seconds = 3.0

    def __init__(self, session: Any, items: Any, *_: Any) -> None:
        del session, items
        self.answer, self._end = multiprocessing.Pipe(duplex=False)

    def conclude(self, limit_s: float) -> tuple[Fate, str]:
        del limit_s
        return Fate.TIME, ""


@pytest.mark.parametrize("limit_s", [2, 4])
def test_a_mutant_that_takes_longer_than_a_call_may_is_named_and_left_to_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], limit_s: int
) -> None:
    monkeypatch.setattr(mutant_trials, "Trial", NeverEnds)
    monkeypatch.setattr(mutant_trials, "KILLS", tmp_path / "kills.json")
    # Within its time, it is tried until the time that every trial has is over.
    monkeypatch.setattr(mutant_trials, "_LONGEST_S", 2 if limit_s > NeverEnds.seconds else 900)
    session = SimpleNamespace(items=[SimpleNamespace(nodeid="a/first")])
    limits = SimpleNamespace(processes=1, minutes=1, seconds=limit_s)
    campaign = Campaign(
        {make_mutant("x"): ()},
        lambda _: lambda _: lambda: None,
        tmp_path / "new.jsonl",
        limits,  # type: ignore[arg-type]
    )
    assert campaign.pytest_runtestloop(session)  # type: ignore[arg-type]
    is_open = limit_s < NeverEnds.seconds
    assert ("left open: a change" in capsys.readouterr().out) is is_open
    assert bool(read_results(tmp_path / "new.jsonl")) is not is_open


@dataclass(frozen=True)
class PartMutant:
    """A mutant of a part of the file `x`."""

    part: str
    key: str
    file: str = "x"
    change: str = "a change"


def test_tests_run_in_the_order_of_the_mutants_that_they_are_likely_to_kill_in_a_second(try_mutants: Any) -> None:
    usual = {"a/first": 0.3, "a/second": 1.0, "a/third": 0.05}
    mutants = [PartMutant("f", "1"), PartMutant("g", "2"), PartMutant("g", "3"), PartMutant("f", "4", file="y")]
    assert try_mutants(dict.fromkeys(mutants, ()), usual=usual) == [
        ["a/third", "a/first", "a/second"],
        # It killed one of another part of the file, then one of the same part.
        ["a/third", "a/second", "a/first"],
        ["a/second", "a/third", "a/first"],
        # It killed three in all, and one of the same part.
        ["a/second", "a/third", "a/first"],
    ]
    # What it killed before the campaign was ended counts too.
    assert try_mutants({PartMutant("h", "5"): ()}, usual=usual) == [["a/second", "a/third", "a/first"]]


@pytest.mark.parametrize(
    ("killer", "first"),
    [("a/second", "a/second"), ("a/third", "a/third"), ("a/gone", "a/first"), ("(the process ended)", "a/first")],
)
def test_the_test_that_killed_a_mutant_in_an_earlier_campaign_runs_first(
    killer: str, first: str, try_mutants: Any, tmp_path: Path
) -> None:
    write_result(tmp_path / "old.jsonl", make_mutant("x"), Fate.TEST, killer)
    assert try_mutants({make_mutant("x"): ()}) == [sorted(TRIED, key=lambda test: test != first)]


def test_a_mutant_that_its_tests_do_not_notice_meets_all_others(try_mutants: Any) -> None:
    mutant = make_mutant("x")
    assert try_mutants({mutant: ["a/first"]}, partly={mutant}) == [["a/first"], TRIED]


def test_refused_sql_does_not_count_and_a_survivor_does() -> None:
    fates = [Fate.TEST, Fate.TEST, Fate.TIME, Fate.SURVIVED, Fate.NO_MUTANT]
    assert summarize([(fate, 2.0) for fate in fates]).split() == ["4", "3", "1", "1", "75.0%", "10"]


def test_without_a_mutant_no_share_is_claimed() -> None:
    assert "none" in summarize([(Fate.NO_MUTANT, 0)])


def test_a_campaign_that_was_ended_keeps_what_it_found(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    file.write_text('{"mutant": "a", "fate": "survived", "seconds": 1}\n{"mutant": "b", "fa', encoding="utf-8")
    assert read_results(file) == {"a": (Fate.SURVIVED, 1)}


def test_a_reason_needs_a_survivor() -> None:
    survivor, killed = (SqlMutant(file="a.sql", change="c", sql=sql) for sql in ("one", "two"))
    fates = {survivor: Fate.SURVIVED, killed: Fate.TEST}
    assert not find_stale_reasons({name_survivor(survivor): "why"}, fates)
    assert len(find_stale_reasons({name_survivor(killed): "why", "a.sql 0": "why"}, fates)) == 2


def test_a_mutant_is_one_small_change() -> None:
    assert {each.sql for each in make_mutants("SELECT a FROM t WHERE a < 1")} == {
        "SELECT a FROM t",
        "SELECT a FROM t WHERE a <= 1",
        "SELECT a FROM t WHERE a < 2",
    }


def test_every_package_with_sql_has_tests() -> None:
    assert {path.relative_to(JUDGING).parts[0] for path in JUDGING.rglob("*.sql")} == set(PACKAGES)
    tests = [ROOT / TESTS / name.partition("::")[0] for names in PACKAGES.values() for name in names]
    assert all(path.exists() for path in tests)


def test_the_tests_that_killed_most_mutants_of_a_part_run_first_in_the_next_campaign(
    try_mutants: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutant_trials, "KILLS", tmp_path / "kills.json")
    monkeypatch.setattr(mutant_trials, "_MOST_KILLERS", 1)
    killed, survivor = [PartMutant("f", str(number)) for number in range(3)], PartMutant("g", "3")
    for mutant, test in zip(killed, ("a/third", "a/third", "a/first"), strict=True):
        write_result(tmp_path / "old.jsonl", mutant, Fate.TEST, test)
    write_result(tmp_path / "old.jsonl", survivor, Fate.SURVIVED, "a/first")
    write_kills([*killed, survivor], tmp_path / "old.jsonl")
    assert read_kills() == {"x": {"f": {"a/third": 2}}}
    (tmp_path / "old.jsonl").unlink()
    assert try_mutants({PartMutant("f", "4"): ()}) == [["a/third", "a/first", "a/second"]]


@pytest.mark.parametrize("tries_all", [False, True])
def test_a_mutant_with_a_reason_counts_as_a_survivor_without_a_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tries_all: bool
) -> None:
    mutants = [PartMutant("f", "1"), PartMutant("f", "2")]
    monkeypatch.setattr(mutant_trials, "read_reasons", lambda: {name_survivor(mutants[0]): "It changes nothing."})
    results = tmp_path / "new.jsonl"
    tried = set_survivors_aside(mutants, results, SimpleNamespace(all=tries_all))  # type: ignore[arg-type]
    assert tried == (mutants if tries_all else mutants[1:])
    assert read_results(results) == ({} if tries_all else {"1": (Fate.SURVIVED, 0)})


def test_messages_of_an_equal_run_are_judged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: Any) -> None:
    """The second run has the same rows. The third one has another row."""
    monkeypatch.setenv(KEPT_MESSAGES, str(tmp_path / "kept"))
    monkeypatch.setattr(run_judging, "MessageJudging", KeptMessages)
    histories = [History().clean() for _ in range(3)]
    histories[2].forget("deliveries", "p0", 3)
    judged = []
    for number, history in enumerate(histories):
        judged.append(Judged(spark, tmp_path / f"run-{number}", history))
        assert len(list((tmp_path / "kept").iterdir())) == (2 if number == 2 else 1)
        if number == 0:
            work_out_facts = MessageJudging.work_out_facts
            monkeypatch.setattr(MessageJudging, "work_out_facts", None)
        if number == 1:
            monkeypatch.setattr(MessageJudging, "work_out_facts", work_out_facts)
    for name in ("messages", "anomalies", "measurements"):
        assert judged[0].table(name) == judged[1].table(name)
    assert judged[0].judgement["counts"] == judged[1].judgement["counts"] != judged[2].judgement["counts"]
    assert judged[2].anomalies(histories[2].topic) == {("undelivered", False, "main", "audit", "p0", 3)}
