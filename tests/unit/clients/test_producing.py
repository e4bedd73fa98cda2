"""What a producer records of the messages that it was not able to send."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from brokerproof import clock
from brokerproof.clients import producing
from brokerproof.clients.producing import Attempts, ScheduledProducer, complete_publishes, plan_producers
from brokerproof.clients.record import KEEP_EVERY_S, RecordReader, RecordWriter, Reservation
from brokerproof.clients.schedule import Schedule
from brokerproof.run.directory import Run
from brokerproof.run.live_status import read_live_status
from brokerproof.run.records import (
    EarlyEnd,
    FoundRate,
    LoadRates,
    MissedRates,
    PhaseTimes,
    ProducerEnd,
    RateStep,
    read_record,
    record_keys,
    write_record,
)
from brokerproof.run.tables import AttemptOutcome
from brokerproof.systems.clients import Position, Settled
from builders import make_run
from simulated_clock import SimulatedClock

from ..planted_system import ON_PLANTED, PlantedSystem, plant_system

# A machine that is busy for a second after the load loses no message.
RATE, MAX_PENDING, LOAD_S, SETTLE_S = 400, 50, 1.0, 1.5

# What answers each message, by its seq.
Answers = dict[int, Callable[[], None]]


class Client:
    """A client of a cluster; `on_send` gets each seq, and the calls that answer the messages sent so far."""

    def __init__(self, on_send: Callable[[int, Answers], None]) -> None:
        self._on_send = on_send
        self._answers: Answers = {}

    def producer(self, name: str) -> Client:
        return self

    def send(self, seq: int, key: str, payload: bytes, settle: Any) -> None:
        acked = Settled(AttemptOutcome.ACKED, partition=-1, position=Position(1, seq))
        self._answers[seq] = lambda: settle(acked)
        self._on_send(seq, self._answers)

    def close(self) -> None:
        pass


def never_answer(seq: int, answers: Answers) -> None:
    pass


def answer_at_once(seq: int, answers: Answers) -> None:
    answers.pop(seq)()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    plant_system(monkeypatch, PlantedSystem())
    return make_run(
        tmp_path / "run",
        "sync_nominal",
        {
            **{"settle_s": SETTLE_S, "workload.rate": RATE, "workload.producers": 1},
            **{"workload.client.max_pending": MAX_PENDING, **ON_PLANTED},
        },
    )


def publish(
    run: Run, monkeypatch: pytest.MonkeyPatch, client: Client, load_s: float = LOAD_S
) -> tuple[list[dict[str, Any]], ProducerEnd]:
    """Publish for `load_s` seconds. Return the rows in the order of their seq, and the end of the producer."""
    plant_system(monkeypatch, PlantedSystem(clients=lambda _: client))
    now = clock.now_us()
    write_record(run, PhaseTimes(steady_at=now, impact_at=now, recovery_at=now, ends_at=now + int(load_s * 1e6)))
    task = plan_producers(run)[0]
    ScheduledProducer(run, task).publish()
    reader = RecordReader(run, task.client, epoch=0)
    batches = complete_publishes(run, task, reader, reader.read_rest(), lambda: True)
    rows = [row for batch in batches for row in batch.to_pylist()]
    end = read_record(run, ProducerEnd, 0)
    assert end is not None
    assert end.counts == {outcome: sum(row["outcome"] == outcome for row in rows) for outcome in AttemptOutcome}
    assert end.scheduled == len(rows)
    assert sorted(row["seq"] for row in rows) == list(range(len(rows)))
    return sorted(rows, key=lambda row: row["seq"]), end


def count_due(run: Run, rows: list[dict[str, Any]]) -> Any:
    """About how many messages were due from the first one until the phases ended."""
    phases = read_record(run, PhaseTimes)
    assert phases is not None
    return pytest.approx((phases.ends_at / 1e6 - rows[0]["scheduled_at"].timestamp()) * RATE, abs=2)


def test_messages_that_a_full_max_pending_held_back_until_the_end_are_not_sent(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, end = publish(run, monkeypatch, Client(never_answer))
    assert end.problem is None
    assert [row["outcome"] for row in rows[:MAX_PENDING]] == ["unknown"] * MAX_PENDING
    held_back = rows[MAX_PENDING:]
    # Every message that was due until the phases ended has a row.
    assert len(rows) == count_due(run, rows)
    assert {row["outcome"] for row in held_back} == {"not_sent"}
    for name in ("sent_at", "settled_at", "partition", "segment", "offset", "batch_index", "error"):
        assert {row[name] for row in held_back} == {None}
    steps = {later["scheduled_at"] - row["scheduled_at"] for row, later in pairwise(rows)}
    assert {round(step.total_seconds() * RATE, 2) for step in steps} == {1.0}
    assert {(bool(row["key"]), bool(row["payload_hash"])) for row in held_back} == {(True, True)}


def test_a_producer_that_stood_still_does_not_call_messages_held_back_whose_answers_it_had_no_time_to_count(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The tick after the last message that may be pending lasts as long as if the machine had been suspended.
    def suspend(seq: int, answers: Answers) -> None:
        if seq == MAX_PENDING - 1:
            monkeypatch.setattr(producing, "_TICK_S", LOAD_S + SETTLE_S + 0.2)

    rows, end = publish(run, monkeypatch, Client(suspend))
    # A busy machine may stand still by itself before.
    assert MAX_PENDING <= len(rows) < MAX_PENDING + LOAD_S * RATE / 2
    assert end.problem is not None
    assert "messages were due and not sent" in end.problem


def test_a_producer_whose_messages_are_answered_sends_all_that_were_due(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, end = publish(run, monkeypatch, Client(answer_at_once))
    assert (end.problem, end.not_sent) == (None, 0)
    assert Counter(row["outcome"] for row in rows) == {"acked": len(rows)}
    assert len(rows) == count_due(run, rows)


def test_messages_that_are_held_back_and_sent_before_all_is_settled_are_no_longer_held_back(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The cluster answers nothing for half of the load.
    ready_at = time.time() + LOAD_S / 2

    def wait(seq: int, answers: Answers) -> None:
        if time.time() > ready_at:
            answer_at_once(seq, answers)
        elif seq == MAX_PENDING - 1:
            answer_all_at(ready_at, answers)

    rows, end = publish(run, monkeypatch, Client(wait))
    assert (end.problem, end.not_sent) == (None, 0)
    assert {row["outcome"] for row in rows} == {"acked"}


def answer_all_at(at: float, answers: Answers) -> None:
    threading.Timer(at - time.time(), lambda: [answer() for answer in list(answers.values())]).start()


def test_messages_that_a_producer_was_able_to_send_and_did_not_are_a_problem(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(seq: int, answers: Answers) -> None:
        answer_at_once(seq, answers)
        if seq == 20:
            time.sleep(LOAD_S + SETTLE_S)

    rows, end = publish(run, monkeypatch, Client(hang))
    assert Counter(row["outcome"] for row in rows) == {"acked": 21}
    assert (end.problem or "").startswith("mycluster-p0: RunError: ")
    assert "messages were due and not sent, although fewer than max_pending had no answer" in (end.problem or "")


def test_a_producer_that_stands_still_for_a_while_sends_what_is_due_afterwards(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stand_still(seq: int, answers: Answers) -> None:
        answer_at_once(seq, answers)
        if seq == 20:
            time.sleep(LOAD_S / 2)

    rows, end = publish(run, monkeypatch, Client(stand_still))
    assert (end.problem, end.not_sent) == (None, 0)
    assert len(rows) == count_due(run, rows)


def test_a_producer_that_itself_did_nothing_says_when(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    slept, make = [], producing.make_payload

    def make_slowly(producer: str, seq: int, size: int) -> bytes:
        if seq == 20 and not slept:
            slept.append(clock.now_us())
            time.sleep(1.2)
            slept.append(clock.now_us())
        return make(producer, seq, size)

    monkeypatch.setattr(producing, "make_payload", make_slowly)
    # The load lasts longer than the standstill.
    rows, end = publish(run, monkeypatch, Client(answer_at_once), load_s=3.0)
    begin, awake = slept
    ((start, until),) = [each for each in end.standstills if each[0] <= awake and each[1] >= begin]
    assert start <= begin <= awake <= until
    assert (until - start) / 1e6 == pytest.approx((awake - begin) / 1e6, abs=0.5)
    assert len(rows) == count_due(run, rows)


def test_a_process_that_stood_still_says_when_in_any_state_of_its_sender(run: Run) -> None:
    producer = ScheduledProducer(run, plan_producers(run)[0])
    begin = clock.now_us()
    # The thread that writes the record wakes up in time, a little late, and 2 s late.
    for slept_s in (KEEP_EVERY_S, KEEP_EVERY_S + 0.9, KEEP_EVERY_S + 2):
        producer._note_oversleeping(begin, begin + int(slept_s * 1e6))
    ((start, until),) = producer._standstills
    assert (start - begin) / 1e6 == pytest.approx(KEEP_EVERY_S, abs=0.01)
    assert (until - begin) / 1e6 == pytest.approx(KEEP_EVERY_S + 2, abs=0.01)


@pytest.mark.parametrize("in_send", [False, True])
def test_a_producer_that_is_slow_by_itself_says_when(
    run: Run, monkeypatch: pytest.MonkeyPatch, *, in_send: bool
) -> None:
    # No other process of this machine takes time from the producer.
    simulated = SimulatedClock()
    monkeypatch.setattr(producing, "clock", simulated)
    monkeypatch.setattr(producing, "time", simulated)
    make = producing.make_payload

    def be_slow(seq: int) -> None:
        # Never for a second at a time, and 3 s in all.
        if 20 <= seq < 80:
            simulated.sleep(0.05)

    def make_slowly(producer: str, seq: int, size: int) -> bytes:
        if not in_send:
            be_slow(seq)
        return make(producer, seq, size)

    def answer_slowly(seq: int, answers: Answers) -> None:
        if in_send:
            be_slow(seq)
            # Once, longer than a process may stand still.
            simulated.sleep(2.0 if seq == 40 else 0.0)
        answer_at_once(seq, answers)

    monkeypatch.setattr(producing, "make_payload", make_slowly)
    now = simulated.now_us()
    write_record(run, PhaseTimes(steady_at=now, impact_at=now, recovery_at=now, ends_at=now + 4_000_000))
    producer = ScheduledProducer(run, plan_producers(run)[0])
    producer._schedule = Schedule(now / 1e6, RATE)
    producer._reserved = 10 * RATE
    producer._send_all(Client(answer_slowly).send)
    due_at = producer._schedule.find_time
    sent = {each.seq: each.sent_at or 0 for each in producer.attempts.take()}
    late = [at for seq, at in sent.items() if at / 1e6 - due_at(seq) > 1.2]
    assert late
    if in_send:
        # The system's client held the producer up.
        assert producer._standstills == []
    else:
        begin, until = producer._standstills[0]
        assert begin <= min(late) <= max(late) <= until


def test_messages_that_came_due_while_a_producer_hung_are_not_excused_by_those_that_were_held_back(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    released: list[int] = []

    def hang_after_a_full_time(seq: int, answers: Answers) -> None:
        if seq == MAX_PENDING - 1:
            answer_all_at(time.time() + LOAD_S / 4, answers)
        elif seq >= MAX_PENDING and not released:
            # Room came, and with the next message the client stands still until all is over.
            released.append(seq)
            time.sleep(LOAD_S + SETTLE_S)

    rows, end = publish(run, monkeypatch, Client(hang_after_a_full_time))
    found = Counter(row["outcome"] for row in rows)
    assert found["acked"] == MAX_PENDING
    assert found["not_sent"] > 0
    assert "messages were due and not sent" in (end.problem or "")
    # Those that came due during the hanging have no row.
    assert len(rows) < RATE * LOAD_S / 2


def test_a_producer_that_is_told_to_end_records_what_was_held_back_until_then(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_record(run, EarlyEnd(why="break_it failed", at=clock.now_us()))
    plant_system(monkeypatch, PlantedSystem(clients=lambda _: Client(never_answer)))
    producer = ScheduledProducer(run, plan_producers(run)[0])
    producer.publish(await_begin=lambda: time.time() - 0.5)
    end = read_record(run, ProducerEnd, 0)
    assert end is not None
    assert (end.unknown, end.problem) == (MAX_PENDING, "mycluster-p0: it was told to end before its time")
    # A busy machine may take a while until the producer looks whether it was told.
    assert RATE * 0.5 - MAX_PENDING <= end.not_sent < RATE * 1.5


def test_a_producer_whose_earlier_process_was_killed_goes_on_behind_all_that_this_one_may_have_sent(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def kill(seq: int, answers: Answers) -> None:
        answer_at_once(seq, answers)
        if seq == 100:
            raise Killed

    def end_the_thread(producer: ScheduledProducer, keeper: threading.Thread) -> None:
        # A killed process shows nothing any more.
        producer._ended = True
        keeper.join()
        raise Killed

    monkeypatch.setattr(ScheduledProducer, "_end_record", end_the_thread)
    with pytest.raises(Killed):
        publish_once(run, monkeypatch, Client(kill), epoch=0)
    monkeypatch.undo()
    end = publish_once(run, monkeypatch, Client(answer_at_once), epoch=1)
    assert end.problem is None
    earlier, later = read_rows(run, 0), read_rows(run, 1, has_ended=True)
    reserved = len(earlier)
    assert reserved > 101
    assert Counter(row["outcome"] for row in earlier)["unknown"] >= reserved - 101
    # No message is left out, and none is attempted twice.
    assert [row["seq"] for row in earlier] == list(range(reserved))
    assert [row["seq"] for row in later] == list(range(reserved, reserved + len(later)))
    assert {row["outcome"] for row in later} == {"acked"}
    assert (end.epoch, end.scheduled, end.acked) == (1, len(later), len(later))
    shown = read_live_status(run, "load-0")
    assert (shown["due"], shown["scheduled"]) == (len(later), len(later))
    # The second process has its own schedule, so no message is late because the first process had ended.
    assert later[0]["scheduled_at"] > max(row["sent_at"] for row in earlier if row["sent_at"])
    assert len(later) == count_due(run, later)
    steps = {after["scheduled_at"] - row["scheduled_at"] for row, after in pairwise(later)}
    assert {round(step.total_seconds() * RATE, 2) for step in steps} == {1.0}


def test_a_later_process_that_was_killed_too_may_have_sent_only_its_own_messages(run: Run) -> None:
    task = plan_producers(run)[0]
    for epoch, (first, until) in enumerate([(0, 1000), (1000, 1600)]):
        reservation = Reservation(first=first, until=until, start_at=1_790_000_000.0 + epoch * 60)
        RecordWriter(run, task.client, table="publishes", epoch=epoch).reserve(reservation)
    rows = read_rows(run, 1)
    assert [row["seq"] for row in rows] == list(range(1000, 1600))
    assert {row["outcome"] for row in rows} == {"unknown"}
    assert [row["scheduled_at"].timestamp() for row in (rows[0], rows[-1])] == [
        1_790_000_060.0,
        pytest.approx(1_790_000_060.0 + 599 / RATE),
    ]


def publish_once(run: Run, monkeypatch: pytest.MonkeyPatch, client: Client, *, epoch: int) -> ProducerEnd:
    plant_system(monkeypatch, PlantedSystem(clients=lambda _: client))
    now = clock.now_us()
    write_record(run, PhaseTimes(steady_at=now, impact_at=now, recovery_at=now, ends_at=now + int(LOAD_S * 1e6)))
    ScheduledProducer(run, plan_producers(run)[0], epoch=epoch).publish()
    end = read_record(run, ProducerEnd, 0)
    assert end is not None
    return end


class NumberedClient(Client):
    def find_last_seq(self) -> int:
        return 59


@pytest.mark.parametrize(
    ("on_restart", "client", "again"),
    [
        (None, NumberedClient(answer_at_once), range(0)),
        ("resend", NumberedClient(answer_at_once), range(20, 100)),
        ("continue", NumberedClient(answer_at_once), range(60, 100)),
    ],
)
def test_a_restarted_producer_sends_again_what_its_strategy_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_restart: str | None, client: Client, again: range
) -> None:
    plant_system(monkeypatch, PlantedSystem())
    run = make_restarted(tmp_path / "run", on_restart)
    publish_once(run, monkeypatch, client, epoch=1)
    rows = read_rows(run, 1, has_ended=True)
    assert [row["seq"] for row in rows] == [*again, *range(100, 100 + len(rows) - len(again))]
    assert {row["outcome"] for row in rows} == {"acked"}
    assert all(row["scheduled_at"] <= row["sent_at"] for row in rows)


def test_a_producer_cannot_continue_where_the_system_does_not_number_its_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_system(monkeypatch, PlantedSystem())
    end = publish_once(make_restarted(tmp_path / "run", "continue"), monkeypatch, Client(answer_at_once), epoch=1)
    assert "the system does not say which message" in (end.problem or "")


def make_restarted(directory: Path, on_restart: str | None) -> Run:
    """Return a run after a producer's process that reserved 100 messages and got answers to the first 20."""
    run = make_run(
        directory,
        "sync_nominal",
        {
            **{"settle_s": SETTLE_S, "workload.rate": RATE, "workload.producers": 1},
            "workload.client": {"max_pending": MAX_PENDING, "on_restart": on_restart},
            "overrides": {"system": "planted", "clusters.mycluster.namespaces.mytenant/eu.deduplication": True},
        },
    )
    task = plan_producers(run)[0]
    producer = ScheduledProducer(run, task)
    producer._start_at = clock.now_s() - 5
    producer._schedule = producer._make_schedule(None)
    for seq in range(20):
        producer.attempts.begin(seq, 1, clock.now_us())
        producer.attempts.settle(seq, Settled(AttemptOutcome.ACKED, partition=-1, position=Position(1, seq)))
    producer._write_rows()
    reservation = Reservation(until=100, start_at=producer._start_at)
    RecordWriter(run, task.client, table="publishes", epoch=0).reserve(reservation)
    return run


def read_rows(run: Run, epoch: int, *, has_ended: bool = False) -> list[dict[str, Any]]:
    """Return the rows of a process by seq, with those of messages that it may have sent unless it `has_ended`."""
    task = plan_producers(run)[0]
    reader = RecordReader(run, task.client, epoch=epoch)
    batches = complete_publishes(run, task, reader, reader.read_rest(), lambda: has_ended)
    return sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: row["seq"])


def test_an_attempt_gets_one_result_and_one_that_comes_after_it_was_given_up_does_not_count() -> None:
    attempts = Attempts()
    acked = Settled(AttemptOutcome.ACKED, partition=-1, position=Position(1, 2))
    for seq in (0, 1):
        attempts.begin(seq, payload_hash=10 + seq, sent_at=20 + seq)
    attempts.settle(0, acked)
    attempts.settle(0, Settled(AttemptOutcome.FAILED, error="Again"))
    attempts.give_up()
    attempts.settle(1, acked)
    taken = [(one.seq, one.payload_hash, one.sent_at, one.result.outcome, one.result.error) for one in attempts.take()]
    assert taken == [(0, 10, 20, "acked", None), (1, 11, 21, "unknown", "not settled in time")]
    assert attempts.counts == {"acked": 1, "failed": 0, "unknown": 1, "not_sent": 0}
    assert (attempts.pending, attempts.take()) == (0, [])


def test_a_producer_follows_the_recorded_rates_and_every_message_keeps_its_schedule(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = run.scenario.workload.model_copy(update={"rate": "max"})
    monkeypatch.setitem(run.__dict__, "scenario", run.scenario.model_copy(update={"workload": workload}))
    begin = clock.now_us()
    steps = (RateStep(at=begin + 300_000, rate=200), RateStep(at=begin + 700_000, rate=RATE))
    found = FoundRate(rate=RATE, held=RATE, missed=None, busy=None)
    write_record(run, LoadRates(steps=steps, found=found, at=begin))
    rows, end = publish(run, monkeypatch, Client(answer_at_once))
    assert end.problem is None
    times = [clock.to_microseconds(row["scheduled_at"]) for row in rows]
    for first_at, until, rate in ((0, steps[0].at, 1000), (steps[0].at, steps[1].at, 200), (steps[1].at, 2**62, RATE)):
        inside = [at for at in times if first_at + 10_000 < at < until]
        assert len(inside) > 50
        assert {round(1e6 / (later - at)) for at, later in pairwise(inside)} <= {rate - 1, rate, rate + 1}
    assert len({later > at for at, later in pairwise(times)}) == 1


def test_a_producer_whose_rate_is_not_found_yet_shows_how_far_it_is_and_misses_none(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = run.scenario.workload.model_copy(update={"rate": "max"})
    monkeypatch.setitem(run.__dict__, "scenario", run.scenario.model_copy(update={"workload": workload}))
    rows, end = publish(run, monkeypatch, Client(never_answer), load_s=4.0)
    shown = read_live_status(run, "load-0")
    assert shown["due"] == len(rows) == end.scheduled
    assert shown["acked"] == 0
    assert record_keys(run, MissedRates) == []


def list_recorded_keys(run: Run) -> list[str]:
    """The keys of the messages that a killed producer only reserved, by seq."""
    task = plan_producers(run)[0]
    reservation = Reservation(first=0, until=1000, start_at=1_790_000_000.0)
    RecordWriter(run, task.client, table="publishes", epoch=0).reserve(reservation)
    return [row["key"] for row in read_rows(run, 0)]


def make_run_with_keys(directory: Path, monkeypatch: pytest.MonkeyPatch, share: float | None) -> Run:
    plant_system(monkeypatch, PlantedSystem())
    changes = {"workload.producers": 1, "workload.keys": 4, "workload.hot_key_share": share, "workload.rate": RATE}
    return make_run(directory, "sync_nominal", {**changes, **ON_PLANTED})


def test_without_a_hot_key_all_keys_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run_with_keys(tmp_path / "run", monkeypatch, None)
    assert list_recorded_keys(run) == ["k0", "k1", "k2", "k3"] * 250


@pytest.mark.parametrize("share", [0.1, 0.5, 0.75])
def test_a_hot_key_has_its_share_of_the_messages_and_the_others_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    keys = list_recorded_keys(make_run_with_keys(tmp_path / "run", monkeypatch, share))
    # Every part of the load has this share, within a message.
    for count in (10, 100, 999, 1000):
        assert keys[:count].count("k0") == pytest.approx(share * count, abs=1)
    others = [key for key in keys if key != "k0"]
    assert others == (["k1", "k2", "k3"] * 1000)[: len(others)]


def test_a_message_is_sent_with_the_key_that_its_record_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run_with_keys(tmp_path / "run", monkeypatch, 0.3)
    sent: dict[int, str] = {}

    class Noting(Client):
        def send(self, seq: int, key: str, payload: bytes, settle: Any) -> None:
            sent[seq] = key
            super().send(seq, key, payload, settle)

    rows, _ = publish(run, monkeypatch, Noting(answer_at_once), load_s=0.5)
    assert len(rows) > 100
    assert sent == {row["seq"]: row["key"] for row in rows}
    assert set(sent.values()) == {"k0", "k1", "k2", "k3"}


def test_a_message_that_is_sent_again_has_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run_with_keys(tmp_path / "run", monkeypatch, 0.3)
    task = plan_producers(run)[0]
    assert [task.list_keys(range(seq, seq + 1))[0] for seq in range(1000)] == list_recorded_keys(run)
