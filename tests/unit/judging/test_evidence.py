"""What the evidence has to show before anything is called missing, and how it is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from brokerproof.experiment.guarantees import Suite
from brokerproof.experiment.verdict import Verdict
from brokerproof.run.judgement import TOTALS, Counts
from brokerproof.run.records import (
    FaultsUndone,
    LoadEnd,
    LogRead,
    LogsRead,
    ReplicationDrain,
    ReplicationDrains,
    SubscriptionDrain,
    SubscriptionDrains,
    UnreadablePart,
    read_record,
    write_record,
)
from brokerproof_judging.evidence import (
    DrainProof,
    Evidence,
    LogProof,
    Proof,
    ReplicationProof,
    RequiredSubscription,
    list_replicas,
    list_subscriptions,
    name_log,
    prove_undone,
)
from brokerproof_judging.run_judging import conclude

from .history import REPLICATED, SEGMENT, TOPIC, History
from .judged import Judged, suite_judgement

FAULT = {"name": "kill", "kind": "kill", "targets": {"nodes": ["broker-eu-1-main"]}}
LOGS = [("main", ("main", TOPIC, -1))]
LOAD = LoadEnd(finished=True, why="", scheduled=12, producers=(), at=0)
FROZEN = FaultsUndone(undone=False, problems=("broker-eu-1 is still frozen",), at=0)


def counts(publishes=10):
    return Counts(**dict.fromkeys(TOTALS, 10) | {"publishes": publishes}, legal={}, illegal={})


def problems(history, tmp_path):
    run = history.write(tmp_path / "run")
    return list(Evidence.from_run(run).list_problems(run, LOGS))


def test_nothing_is_missing_from_whole_evidence(tmp_path):
    assert problems(History().clean(), tmp_path) == []


@pytest.mark.parametrize(
    ("kind", "record", "said"),
    [
        (LoadEnd, None, "The load did not finish"),
        (LoadEnd, LOAD.model_copy(update={"finished": False}), "The load did not finish: it stopped before its"),
        (LoadEnd, LOAD.model_copy(update={"finished": False, "why": "p0: it broke"}), "did not finish: p0: it broke"),
        (LogsRead, None, "No log was read back: no step left a record of it"),
        (
            LogsRead,
            LogsRead(started_at=0, finished_at=0, logs=()),
            "was not read to its end: no step left a record of it",
        ),
        (SubscriptionDrains, None, "Nothing proves that a subscription drained: no step left a record of it"),
        (SubscriptionDrains, SubscriptionDrains(subscriptions=(), at=0), "did not drain: no step left a record of it"),
        (FaultsUndone, None, "Nothing proves that every fault was undone: no step left"),
        (FaultsUndone, FROZEN, "broker-eu-1 is still frozen"),
    ],
)
def test_each_missing_piece_is_reported_in_a_sentence(tmp_path, kind, record, said):
    history = History(faults=[FAULT]).clean()
    history.records[kind] = record

    (sentence,) = problems(history, tmp_path)

    assert said in sentence


@pytest.mark.parametrize("why", ["for this reason", ""])
@pytest.mark.parametrize("given", [True, False])
def test_a_proof_has_everything_that_its_record_says(tmp_path, given, why):
    history = History(clusters=("main", "other"))
    part = UnreadablePart(start=(SEGMENT, 3), end=(SEGMENT, 5))
    place = {"cluster": "main", "topic": TOPIC, "partition": 4}
    log = LogRead(
        **place, task=0, end="7", read_to_end=given, why=why, messages=9, passed=(SEGMENT, 7), unreadable=(part,)
    )
    drain = SubscriptionDrain(**place, subscription="audit", drained=given, end=(SEGMENT, 6), why=why)
    ways = {"topic": TOPIC, "drained": given, "ends": {4: (SEGMENT, 8)}, "why": why, "from": "main", "to": "other"}
    history.records |= {
        LogsRead: LogsRead(started_at=0, finished_at=0, logs=(log,)),
        SubscriptionDrains: SubscriptionDrains(subscriptions=(drain,), at=0),
        ReplicationDrains: ReplicationDrains(drains=(ReplicationDrain.model_validate(ways),), at=0),
    }

    evidence = Evidence.from_run(history.write(tmp_path / "run"))

    why = why or "its record gives no reason"
    key = ("main", TOPIC, 4)
    assert evidence.logs == {key: LogProof(given=given, why=why, passed=(SEGMENT, 7), unreadable=(part,))}
    assert evidence.drains == {(*key, "audit"): DrainProof(given=given, why=why, end=(SEGMENT, 6))}
    ends = {4: (SEGMENT, 8)}
    assert evidence.replication == {(TOPIC, "main", "other"): ReplicationProof(given=given, why=why, ends=ends)}


def test_a_subscription_that_moves_is_required_where_it_moves_to():
    moving = {"name": "moving", "cluster": "main", "moves": {"to": "other", "after": "kill", "after_s": 1}}
    subscriptions = [moving, {"name": "audit", "cluster": "other"}]
    history = History(clusters=("main", "other"), faults=[FAULT], subscriptions=subscriptions)

    assert list_subscriptions(history.scenario, history.topology) == [
        RequiredSubscription(cluster="other", name="moving", moved_from="main", writes_outputs=False),
        RequiredSubscription(cluster="other", name="audit", moved_from=None, writes_outputs=False),
    ]


def test_a_message_has_to_reach_the_other_clusters_of_a_replicated_topic():
    topology, replicated = History(clusters=("main", "other")).topology, f"persistent://{REPLICATED}/topic"
    assert list_replicas(topology, [TOPIC]) == []
    assert list_replicas(topology, [TOPIC, replicated]) == [
        ("main", replicated, "other"),
        ("other", replicated, "main"),
    ]


@pytest.mark.parametrize(("partition", "name"), [(-1, "t in eu"), (0, "t-partition-0 in eu")])
def test_a_log_is_named_with_its_partition(partition, name):
    assert name_log(("eu", "t", partition)) == name


def test_a_consumer_whose_end_cannot_be_read_has_not_drained(tmp_path):
    history = History().clean()
    history.facts["sealed"] = True
    run = history.write(tmp_path / "run")
    Path(run.path("state", "consumer_end-0.json")).write_text("{")

    (drain,) = Evidence.from_run(run).drains.values()

    assert not drain.given
    assert "consumer_end-0.json" in drain.why


def publish_to_one_partition():
    """A history whose messages all went to partition 0."""
    return History(workload={"partitions": 2}).clean(partition=0)


def test_a_log_that_no_message_reached_has_to_be_read_to_its_end(spark, tmp_path):
    history = publish_to_one_partition()
    history.not_read_to_end(partition=1)

    judged = Judged(spark, tmp_path / "run", history)

    assert judged.judgement["verdict"] == "unknown"
    assert judged.judgement["problems"] == [
        f"The log of {TOPIC}-partition-1 in main was not read to its end: the reader stopped."
    ]


def test_a_log_that_no_message_reached_and_that_was_read_is_no_problem(spark, tmp_path):
    judged = Judged(spark, tmp_path / "run", publish_to_one_partition())

    assert (judged.judgement["verdict"], judged.judgement["problems"]) == ("passed", [])


def test_a_partition_of_the_workload_without_a_record_is_a_problem(tmp_path):
    run = publish_to_one_partition().write(tmp_path / "run")
    read = read_record(run, LogsRead)
    write_record(run, read.model_copy(update={"logs": [log for log in read.logs if log.partition == 0]}))

    said = list(Evidence.from_run(run).list_problems(run, [("main", ("main", TOPIC, 0))]))

    assert said == [f"The log of {TOPIC}-partition-1 in main was not read to its end: no step left a record of it."]


def test_a_cluster_that_the_workload_reaches_is_read_even_if_no_message_did(tmp_path):
    history = History(clusters=("main", "other"), workload={"namespace": REPLICATED})
    run = history.write(tmp_path / "run")
    read = read_record(run, LogsRead)
    write_record(run, read.model_copy(update={"logs": [log for log in read.logs if log.cluster == "main"]}))

    (sentence,) = Evidence.from_run(run).list_problems(run, [])

    assert " in other was not read to its end: no step left a record of it." in sentence


def test_a_log_that_a_record_names_has_to_be_read_to_its_end(tmp_path):
    # Nobody planned this partition; it was added while the run went on.
    history = History().clean()
    history.partitions[TOPIC].add(7)
    history.not_read_to_end(partition=7)

    (sentence,) = problems(history, tmp_path)

    assert sentence == f"The log of {TOPIC}-partition-7 in main was not read to its end: the reader stopped."


@pytest.mark.parametrize("faults", [[], [{**FAULT, "permanent": True}], [FAULT]], ids=["none", "permanent", "healed"])
def test_what_somebody_else_did_to_a_node_is_undone_by_nobody(tmp_path, faults):
    history = History(faults=faults).clean()
    removed = ("NodeError: somebody outside the run ended node bookie-eu-1: its container was removed",)
    history.records[FaultsUndone] = FaultsUndone(undone=True, problems=removed, undisturbed=False, at=0)

    (sentence,) = problems(history, tmp_path)

    assert sentence == f"Nothing proves that every fault was undone: {removed[0]}."
    assert prove_undone(history.write(tmp_path / "again")) == Proof(given=False, why=removed[0])


@pytest.mark.parametrize(
    ("kind", "file", "said"),
    [
        (LoadEnd, "load_end.json", "The load did not finish: "),
        (LogsRead, "logs_read.json", "No log was read back: "),
        (SubscriptionDrains, "subscription_drains.json", "Nothing proves that a subscription drained: "),
        (FaultsUndone, "faults_undone.json", "Nothing proves that every fault was undone: "),
    ],
)
def test_a_damaged_record_proves_nothing_and_differs_from_none(tmp_path, kind, file, said):
    run = History(faults=[FAULT]).clean().write(tmp_path / "run")
    run.write_text(f"state/{file}", '{"version": 1, "at": "soon"}')

    (sentence,) = Evidence.from_run(run).list_problems(run, LOGS)

    assert sentence.startswith(said)
    assert f"state/{file} is damaged: " in sentence


def test_a_damaged_record_of_replication_proves_no_way(tmp_path):
    run = History(clusters=("main", "other")).clean().write(tmp_path / "run")
    run.write_text("state/replication_drains.json", '{"version": 1, "drains": "all", "at": 1}')

    (sentence,) = Evidence.from_run(run).list_problems(run, [("main", ("other", TOPIC, -1))])

    assert sentence.startswith(f"Replication of {TOPIC} from main to other did not drain: ")
    assert "state/replication_drains.json is damaged: `drains` " in sentence


def test_a_permanent_fault_needs_no_undoing(tmp_path):
    history = History(faults=[{**FAULT, "permanent": True}]).clean()
    history.leave(FROZEN)

    assert problems(history, tmp_path) == []


def test_without_faults_nothing_has_to_be_undone(tmp_path):
    history = History().clean()
    history.records[FaultsUndone] = None

    assert problems(history, tmp_path) == []


def test_replication_that_nobody_saw_drain_is_reported(tmp_path):
    history = History(clusters=("main", "other")).clean()
    history.records[ReplicationDrains] = None
    run = history.write(tmp_path / "run")

    said = list(Evidence.from_run(run).list_problems(run, [("main", ("other", TOPIC, -1))]))

    assert said == [f"Replication of {TOPIC} from main to other did not drain: no step left a record of it."]


def test_only_replication_that_did_not_drain_is_reported(tmp_path):
    history = History(clusters=("main", "other"))
    drains = [
        ReplicationDrain.model_validate(
            {"topic": TOPIC, "drained": way[0] == "main", "why": "2 are left", "from": way[0], "to": way[1]}
        )
        for way in (("main", "other"), ("other", "main"))
    ]
    history.records[ReplicationDrains] = ReplicationDrains(drains=tuple(drains), at=0)
    run = history.write(tmp_path / "run")
    logs = [(home, (cluster, TOPIC, -1)) for home in ("main", "other") for cluster in ("main", "other")]

    said = [each for each in Evidence.from_run(run).list_problems(run, logs) if each.startswith("Replication")]

    assert said == [f"Replication of {TOPIC} from other to main did not drain: 2 are left."]


def test_only_the_subscriptions_of_a_cluster_have_to_drain_there(tmp_path):
    subscriptions = [{"name": "audit", "cluster": "main"}, {"name": "other_audit", "cluster": "other"}]
    history = History(clusters=("main", "other"), subscriptions=subscriptions)
    history.records[SubscriptionDrains] = SubscriptionDrains(subscriptions=(), at=0)
    run = history.write(tmp_path / "run")

    said = [each for each in Evidence.from_run(run).list_problems(run, LOGS) if each.startswith("Subscription")]

    assert said == [f"Subscription audit of {TOPIC} in main did not drain: no step left a record of it."]


@pytest.fixture(scope="module")
def doubtful(spark, tmp_path_factory):
    """A fault that was not undone, no word from the consumers, and publishes that contradict themselves."""
    history = History(clusters=("main", "other"), faults=[FAULT]).clean()
    history.leave(FROZEN)
    history.records[SubscriptionDrains] = None
    # p0/3 was acked at 5:6.
    history.not_read_to_end(passed=(SEGMENT, 99), unreadable=[((SEGMENT, 6), (SEGMENT, 7))])
    history.forget("stored", "p0", 3)
    history.forget("deliveries", "p0", 3)
    history.forget("deliveries", "p1", 2)
    # Gaps: one in the middle, one at the start.
    history.message("gap", 0)
    history.message("gap", 2)
    history.message("late", 1)
    history.publish(producer="p1", seq=0, epoch=0, at=50_000, segment=SEGMENT, offset=0)
    history.publish(producer="p1", seq=3, epoch=1, at=50_000, cluster="other", outcome="unknown")
    history.publish(producer="p1", seq=4, epoch=1, at=50_000, payload_hash=3, outcome="unknown")
    history.publish(producer="p1", seq=5, epoch=1, at=50_000, key="another", outcome="unknown")
    return Judged(spark, tmp_path_factory.mktemp("doubtful") / "run", history)


def test_nothing_is_claimed_as_missing_while_a_fault_is_not_undone(doubtful):
    findings = doubtful.findings(TOPIC).items()
    anomalies = ("lost", "undelivered", "unproven", "unreadable")
    missing = {key: texts for key, texts in findings if key[0] in anomalies}

    assert missing == {
        ("unproven", True, "main", None, "p0", 3): (
            "fault_not_undone",
            "acked at 2023-11-14 22:13:20.0064 UTC in main, and not found in main, "
            "but nothing proves that every fault was undone",
        ),
        ("unproven", True, "main", "audit", "p1", 2): (
            "fault_not_undone",
            "stored at 5:5:-1 and not delivered to audit, but nothing proves that every fault was undone",
        ),
    }


@pytest.mark.parametrize(
    "said",
    [
        "The seq of what was published has gaps: gap (2 different of 3, from 0 to 2), late (1 different of 2",
        "One attempt is recorded more than once, so the load's record contradicts itself: p1 seq 0 in epoch 0.",
        "Messages were published to two clusters, so they have no home; one is p1 seq 3.",
        "Messages were published with two payloads under one name; one is p1 seq 4.",
        "Messages were published with two keys under one name; one is p1 seq 5.",
        "broker-eu-1 is still frozen",
        "Nothing proves that a subscription drained: no step left a record of it.",
    ],
)
def test_what_is_wrong_with_the_evidence_is_reported(doubtful, said):
    assert any(said in problem for problem in doubtful.judgement["problems"])


def test_incomplete_evidence_makes_the_verdict_unknown(doubtful):
    assert doubtful.judgement["verdict"] == "unknown"


def test_without_publishes_there_is_no_data():
    assert conclude(counts(publishes=0), ["No log was read back."], {})[0] is Verdict.NO_DATA


def test_a_proven_failure_outweighs_missing_evidence():
    suites = {
        Suite.ORDERING: suite_judgement(Verdict.FAILED, "2 messages crossed."),
        Suite.PLACEMENT: suite_judgement(Verdict.PASSED),
    }

    assert conclude(counts(), ["No log was read back."], suites) == (
        Verdict.FAILED,
        "ordering: 2 messages crossed; also not known: No log was read back.",
    )


def test_the_verdict_passes_only_where_every_suite_and_the_evidence_do():
    suites = {Suite.ORDERING: suite_judgement(Verdict.PASSED)}

    assert conclude(counts(), [], suites)[0] is Verdict.PASSED
    assert conclude(counts(), ["No log was read back."], suites) == (
        Verdict.UNKNOWN,
        "No log was read back; what is proven nevertheless: 10 messages were acknowledged, and ordering held.",
    )
    assert conclude(counts(), [], {})[0] is Verdict.NO_DATA


def test_a_suite_that_does_not_apply_neither_helps_nor_hinders():
    inapplicable = {Suite.PLACEMENT: suite_judgement(Verdict.NOT_APPLICABLE)}

    for verdict in (Verdict.PASSED, Verdict.UNKNOWN, Verdict.FAILED):
        assert conclude(counts(), [], {Suite.ORDERING: suite_judgement(verdict), **inapplicable})[0] is verdict


def test_a_message_need_not_be_replicated_to_its_own_home(tmp_path):
    history = History().clean()
    history.records[ReplicationDrains] = None
    assert problems(history, tmp_path) == []


def test_a_subscription_without_a_cluster_moves_from_the_first_one():
    moves = {"to": "other", "after": "kill"}
    history = History(clusters=("main", "other"), faults=[FAULT], subscriptions=[{"name": "a", "moves": moves}])
    assert list_subscriptions(history.scenario, history.topology) == [
        RequiredSubscription(cluster="other", name="a", moved_from="main", writes_outputs=False)
    ]
