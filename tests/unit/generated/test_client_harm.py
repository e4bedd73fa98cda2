"""What the oracle of generated runs knows of clients: what faults may do to them, and what consumers wrote."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from brokerproof.clock import now_us
from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.verdict import Verdict
from brokerproof.run.directory import Run
from brokerproof.run.measurement import Measurement
from brokerproof.run.records import (
    ClientEpoch,
    ClientEpochs,
    ClientState,
    EarlyEnd,
    PhaseTimes,
    SubscriptionDrain,
    SubscriptionDrains,
    write_record,
)
from brokerproof.run.seals import seal_tables
from brokerproof.run.tables import FaultState
from builders import SYSTEMS, make_check, make_counts, make_judgement, make_measurement, make_run, make_suite
from chain import ChainEnd
from oracle import Explanation, explain

SUBSCRIPTIONS = [{"name": way, "commit": way} for way in ("before", "after", "by_key")]
ON_CONSUMERS = {"name": "killed", "kind": "kill", "targets": {"client": "consumer"}, "at_s": 1}
ON_PRODUCER = {"kind": "kill", "targets": {"client": "producer", "names": ["log-p0"]}, "at_s": 1}


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERPROOF_SYSTEMS", "testlog=testlog_system.system:TESTLOG")


def make(directory: Path, *faults: dict[str, Any], **overrides: Any) -> Run:
    """A run in which nothing happened yet, whose scenario has faults and other fields of the workload."""
    file = SYSTEMS / "scenarios/leader_loss.yaml"
    given = {"bounds": {}, "faults": list(faults), **{f"workload.{name}": value for name, value in overrides.items()}}
    return make_run(directory / "run", file, given, topologies=SYSTEMS / "topologies", sealed=True)


def live(run: Run, client: str, *epochs: dict[str, Any]) -> None:
    lives = tuple(ClientEpoch(epoch=number, **{"started_at": 0, **each}) for number, each in enumerate(epochs))
    rest = {"followed": 0, "state": ClientState.RUNNING, "evidence": "", "over": True, "at": 100}
    write_record(run, ClientEpochs(client=client, epochs=lives, **rest))


def add(run: Run, table: str, *rows: dict[str, Any]) -> None:
    common = {"run_id": "r", "cluster": "log", "topic": "orders", "partition": -1, "producer": "log-p0", "key": "k"}
    times = dict.fromkeys(("received_at", "written_at", "scheduled_at", "sent_at", "settled_at", "at"), now_us())
    run.append(table, [{**common, **times, "payload_hash": 1, "epoch": 0, "incarnation": 0, **row} for row in rows])
    seal_tables(run, table)


def deliver(run: Run, subscription: str, seqs: Sequence[int], written: Sequence[int]) -> None:
    common = {"subscription": subscription, "consumer": f"{subscription}-c0"}
    add(run, "deliveries", *({**common, "seq": seq} for seq in seqs))
    add(run, "outputs", *({**common, "seq": seq, "object": str(number)} for number, seq in enumerate(written)))


def drain(run: Run, *subscriptions: str) -> None:
    common = {"cluster": "log", "topic": "orders", "partition": -1, "drained": True, "why": "backlog 0"}
    drains = tuple(SubscriptionDrain(subscription=name, **common) for name in subscriptions)
    write_record(run, SubscriptionDrains(subscriptions=drains, at=1))


def conclude(
    run: Run,
    *problems: str,
    failed: str = "",
    measured: Sequence[Measurement] = (),
    legal: dict[Anomaly, int] | None = None,
    **counts: int,
) -> Explanation:
    """Explain a run with a judgement: with problems, or with one expectation that failed, or passed."""
    verdict = Verdict.UNKNOWN if problems else Verdict.FAILED if failed else Verdict.PASSED
    suite = make_suite(Verdict.FAILED, make_check(failed, Verdict.FAILED, unexpected=1)) if failed else None
    judgement = make_judgement(
        verdict,
        problems=problems,
        suites={Suite.ORDERING: suite} if suite else {},
        counts=make_counts().model_copy(update={"legal": legal or {}, **counts}),
        measurements=measured,
    )
    return explain(ChainEnd(run=run, judgement=judgement))


def conclude_outputs(run: Run, name: str, *, missing: int = 0, repeated: int = 0) -> list[str]:
    """The violations of a run whose judgement measures the outputs of a subscription so."""
    measured = [
        make_measurement("r", metric, value, subject=each["name"])
        for each in SUBSCRIPTIONS
        for metric, value in (
            ("missing_outputs", missing * (each["name"] == name)),
            ("repeated_outputs", repeated * (each["name"] == name)),
        )
    ]
    legal = {Anomaly.OUTPUT_MISSING: missing, Anomaly.OUTPUT_REPEATED: repeated}
    return conclude(run, measured=measured, legal=legal).violations


@pytest.mark.parametrize("problem", ["step load failed", "The load did not finish"])
def test_a_dead_client_that_is_called_a_broken_instrument_is_a_violation(tmp_path: Path, problem: str) -> None:
    problem = f"{problem}: log-p0: its process was ended by SIGKILL"
    run = make(tmp_path, {"name": "killed", **ON_PRODUCER})
    live(run, "load-0", {"ready_at": 1, "ended_at": 2, "fault": "killed"})
    assert "but the faults did no such thing" in conclude(run, problem).violations[0]
    # Three seconds after an early end, its task kills it.
    write_record(run, EarlyEnd(why="break_it failed", at=1))
    assert conclude(run, problem).violations == []


NEVER_MET = "step break_it failed: log-p0 was not killed: it never met the moment `holds_unacknowledged` in 20 s"


def test_a_moment_that_never_came_needs_a_client_that_was_frozen_or_a_load_that_was_over(tmp_path: Path) -> None:
    fault = {**ON_PRODUCER, "targets": {**ON_PRODUCER["targets"], "now": "holds_unacknowledged"}}
    run = make(tmp_path, {"name": "killed", **fault})
    assert conclude(run, NEVER_MET).violations
    write_record(run, PhaseTimes(steady_at=1, impact_at=2, recovery_at=3, ends_at=10))
    live(run, "load-0", {"ready_at": 1, "ended_at": 9})
    assert conclude(run, NEVER_MET).violations
    live(run, "load-0", {"ready_at": 1, "ended_at": 11})
    assert conclude(run, NEVER_MET).violations == []
    frozen = {"name": "frozen", **ON_PRODUCER, "kind": "pause"}
    assert conclude(make(tmp_path / "frozen", frozen, {"name": "killed", **fault}), NEVER_MET).violations == []
    other = {**frozen, "targets": {"client": "producer", "names": ["log-p1"]}}
    assert conclude(make(tmp_path / "other", other, {"name": "killed", **fault}), NEVER_MET).violations


@pytest.mark.parametrize(
    "problem",
    [
        "step break_it failed: log-p0 was never at the moment `in_batch`, because its process does not run",
        "step break_it failed: log-p0 was not paused: its process was ended by SIGKILL before",
    ],
)
def test_a_client_without_a_process_needs_a_second_fault(tmp_path: Path, problem: str) -> None:
    one, two = {"name": "one", **ON_PRODUCER}, {"name": "two", **ON_PRODUCER}
    assert "but the faults did no such thing" in conclude(make(tmp_path / "1", one), problem).violations[0]
    assert conclude(make(tmp_path / "2", one, two), problem).violations == []


def test_a_task_that_has_ended_needs_a_load_that_was_over(tmp_path: Path) -> None:
    run = make(tmp_path, {"name": "fenced", **ON_PRODUCER, "kind": "fence"})
    problem = "step break_it failed: log-p0 was not fenced: its task has ended"
    write_record(run, PhaseTimes(steady_at=1, impact_at=2, recovery_at=3, ends_at=10))
    # A fault ended its last process.
    live(run, "load-0", {"ready_at": 1, "ended_at": 11, "fault": "fenced"})
    assert conclude(run, problem).violations
    live(run, "load-0", {"ready_at": 1, "ended_at": 11})
    assert conclude(run, problem).violations == []


def test_a_client_that_gets_no_connection_needs_a_cluster_without_a_leader(tmp_path: Path) -> None:
    run = make(tmp_path, {"name": "killed", **ON_PRODUCER})
    problem = "Nothing proves that every fault was undone: killed was not undone: waited 60 s for the task of log-p0"
    assert conclude(run, problem).violations
    for server in ("server-1", "server-2"):
        row = {"fault": server, "kind": "kill", "targets": [server], "state": FaultState.EFFECTIVE, "evidence": ""}
        run.append("faults", [{"run_id": "r", "at": now_us(), **row}])
    seal_tables(run, "faults")
    assert conclude(run, problem).violations == []


@pytest.mark.parametrize(
    ("name", "interrupted", "explained"),
    [("before", True, True), ("before", False, False), ("after", True, False), ("by_key", True, False)],
)
def test_an_output_is_missing_only_if_a_consumer_that_acknowledges_first_was_ended(
    tmp_path: Path, name: str, interrupted: bool, explained: bool
) -> None:
    run = make(tmp_path, ON_CONSUMERS, subscriptions=SUBSCRIPTIONS)
    deliver(run, name, [0, 1], [0])
    drain(run, "before", "after", "by_key")
    if interrupted:
        live(run, f"consume-{[each['name'] for each in SUBSCRIPTIONS].index(name)}", {"ended_at": 1, "fault": "killed"})
    violations = conclude_outputs(run, name, missing=1)
    assert bool(violations) is not explained
    assert [each for each in violations if "no output at" not in each] == []
    # Without a drain, the message may come again.
    drain(run, *({"before", "after", "by_key"} - {name}))
    assert conclude_outputs(run, name, missing=1) == []


@pytest.mark.parametrize(
    ("name", "interrupted", "explained"),
    [("before", True, False), ("after", True, True), ("after", False, False), ("by_key", True, False)],
)
def test_an_output_is_repeated_only_if_a_consumer_that_acknowledges_last_was_ended(
    tmp_path: Path, name: str, interrupted: bool, explained: bool
) -> None:
    run = make(tmp_path, ON_CONSUMERS, subscriptions=SUBSCRIPTIONS)
    deliver(run, name, [0, 1, 1], [0, 1, 1])
    drain(run, "before", "after", "by_key")
    if interrupted:
        live(run, f"consume-{[each['name'] for each in SUBSCRIPTIONS].index(name)}", {"ended_at": 1, "fault": "killed"})
    violations = conclude_outputs(run, name, repeated=1)
    assert bool(violations) is not explained
    assert [each for each in violations if "several outputs at" not in each] == []


def test_a_message_has_no_more_outputs_than_deliveries(tmp_path: Path) -> None:
    run = make(tmp_path, ON_CONSUMERS, subscriptions=SUBSCRIPTIONS)
    deliver(run, "after", [0], [0, 0])
    live(run, "consume-1", {"ended_at": 1, "fault": "killed"})
    (violation,) = conclude_outputs(run, "after", repeated=1)
    assert violation == "1 messages have more outputs at after than deliveries, such as ('log-p0', 0)"


def test_two_consumers_that_run_at_a_time_repeat_outputs_although_the_acks_come_first(tmp_path: Path) -> None:
    subscriptions = [{"name": "before", "commit": "before", "standby": 1}]
    values = {"missing_outputs": 0, "repeated_outputs": 1}
    measured = [make_measurement("r", metric, value, subject="before") for metric, value in values.items()]
    for begins_at, explained in ((5, True), (15, False)):
        run = make(tmp_path / str(begins_at), ON_CONSUMERS, subscriptions=subscriptions)
        deliver(run, "before", [0, 0], [0, 0])
        live(run, "consume-0", {"ready_at": 1, "ended_at": 10})
        live(run, "consume-1", {"ready_at": begins_at})
        found = conclude(run, failed="output_repeated", measured=measured, legal={Anomaly.OUTPUT_REPEATED: 1})
        assert (found.violations == []) is explained


def test_outputs_that_judging_counts_otherwise_are_a_violation(tmp_path: Path) -> None:
    run = make(tmp_path, ON_CONSUMERS, subscriptions=SUBSCRIPTIONS)
    deliver(run, "before", [0, 1, 2], [0])
    live(run, "consume-0", {"ended_at": 1, "fault": "killed"})
    drain(run, "before", "after", "by_key")
    assert conclude_outputs(run, "before", missing=2) == []
    assert conclude_outputs(run, "before", missing=1) == [
        "2 messages are output_missing at before, and judging measures 1.0",
        "2 messages are output_missing, and judging counts 1",
    ]


def test_messages_that_a_dead_producer_left_open_are_unknown_and_none_is_left_out(tmp_path: Path) -> None:
    run = make(tmp_path, {"name": "killed", **ON_PRODUCER})
    add(run, "publishes", *({"seq": seq, "outcome": outcome} for seq, outcome in enumerate(["unknown", "failed"])))
    assert conclude(run, unknown=1).violations == []
    assert conclude(run, unknown=2).violations == ["1 messages are unknown, and judging counts 2"]
    add(run, "publishes", {"seq": 3, "outcome": "unknown"})
    (violation,) = conclude(run, unknown=2).violations
    assert violation == "the messages of log-p0 have 1 gaps, although what it left open is unknown"


@pytest.mark.parametrize(("on_restart", "second_epoch"), [("resend", 1), ("resend", 0), (None, 1)])
def test_a_message_is_stored_behind_later_ones_if_its_producer_sent_it_again(
    tmp_path: Path, on_restart: str | None, second_epoch: int
) -> None:
    run = make(tmp_path, {"name": "killed", **ON_PRODUCER}, client={"on_restart": on_restart})
    add(run, "stored", *({"seq": seq, "segment": 0, "offset": 10 - seq} for seq in (0, 1)))
    attempts = [{"seq": 0, "outcome": "unknown"}, {"seq": 0, "outcome": "unknown", "epoch": second_epoch}]
    add(run, "publishes", *attempts, {"seq": 1, "outcome": "unknown"})
    found = conclude(run, failed=Anomaly.STORED_OUT_OF_ORDER, unknown=2)
    assert (found.violations == []) is (on_restart is not None and second_epoch == 1)


def test_messages_are_out_of_order_if_a_second_producer_of_the_name_took_over(tmp_path: Path) -> None:
    run = make(tmp_path, {"name": "fenced", **ON_PRODUCER, "kind": "fence"})
    add(run, "stored", *({"seq": seq, "segment": 0, "offset": 10 - seq} for seq in (0, 1)))
    add(run, "publishes", *({"seq": seq, "outcome": "unknown"} for seq in (0, 1)))
    row = {"fault": "fenced", "kind": "fence", "targets": ["log-p0"], "state": FaultState.EFFECTIVE, "evidence": ""}
    run.append("faults", [{"run_id": "r", "at": now_us(), **row}])
    seal_tables(run, "faults")
    # The second process was refused.
    live(run, "load-0", {"ready_at": 1}, {"ended_at": 3, "fault": "fenced"})
    assert conclude(run, failed=Anomaly.STORED_OUT_OF_ORDER, unknown=2).violations
    live(run, "load-0", {"ready_at": 1, "ended_at": 5, "fault": "fenced"}, {"ready_at": 3})
    assert conclude(run, failed=Anomaly.STORED_OUT_OF_ORDER, unknown=2).violations == []
