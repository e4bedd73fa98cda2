"""Whole runs of the log server in which clients die, with real processes and without Airflow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from brokerproof.directories import Directories
from brokerproof.experiment.workload import ClientRole
from brokerproof.run.records import ClientEpochs, read_record
from campaign import prepare_environment
from chain import ChainEnd, run_chain
from judging_session import JudgingSession

SYSTEMS = Path(__file__).resolve().parent


Chain = Callable[[str], ChainEnd]


@pytest.fixture(scope="module")
def run_whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    """Runs a scenario of tests/systems, none of whose steps may fail."""
    directory = tmp_path_factory.mktemp("runs")

    def run_scenario(name: str) -> ChainEnd:
        file = SYSTEMS / "scenarios" / f"{name}.yaml"
        end = run_chain(file, Directories((SYSTEMS / "topologies",)), directory / name, session.judge)
        assert {step: each.error for step, each in end.steps.items() if each.error} == {}
        return end

    # Spark's processes inherit the environment.
    with prepare_environment(directory, 1), JudgingSession() as session:
        yield run_scenario


def list_faults(end: ChainEnd) -> dict[str, list[str]]:
    """Return, for each client that a fault ended, these faults in the order of its processes."""
    found = {}
    for role in ClientRole:
        for client in end.run.scenario.workload.list_clients(end.run.topology, role):
            lives = read_record(end.run, ClientEpochs, client.client)
            if faults := [each.fault for each in (lives.epochs if lives else ()) if each.fault]:
                found[client.label] = faults
    return found


def test_clients_that_faults_ended_accuse_no_one(run_whole: Chain) -> None:
    end = run_whole("clients_killed")
    assert list_faults(end) == {
        "log-p0": ["producer_killed"],
        "audit-c0": ["consumer_killed", "consumer_restarted"],
    }
    judgement = end.judgement
    assert judgement is not None
    assert (judgement.verdict, judgement.problems) == ("passed", ())
    assert not any(judgement.counts.illegal.values())
    # The producer was killed with messages on their way, and what it had reserved is unknown and has no gaps.
    assert judgement.counts.unknown > 0
    rows = pq.read_table(end.run.table("publishes"), columns=["producer", "seq"]).to_pylist()
    seqs = sorted(row["seq"] for row in rows if row["producer"] == "log-p0")
    assert seqs == list(range(len(seqs)))
    # The consumer was killed in the middle of a batch, whose messages came again.
    assert judgement.counts.legal["delivered_twice"] > 0


def test_a_consumer_that_is_killed_loses_or_repeats_what_its_commit_allows(run_whole: Chain) -> None:
    end = run_whole("outputs_of_killed_consumers")
    kills = ["consumers_killed", "killed_again"]
    assert list_faults(end) == dict.fromkeys(("commits_first-c0", "commits_last-c0", "writes_by_key-c0"), kills)
    judgement = end.judgement
    assert judgement is not None
    assert (judgement.verdict, judgement.problems) == ("passed", ())
    measured = {(row.metric, row.subject): row.value or 0 for row in judgement.measurements}
    shown = {key: value > 0 for key, value in measured.items() if key[0].endswith("_outputs")}
    assert shown == {
        ("missing_outputs", "commits_first"): True,
        ("repeated_outputs", "commits_first"): False,
        ("missing_outputs", "commits_last"): False,
        ("repeated_outputs", "commits_last"): True,
        ("missing_outputs", "writes_by_key"): False,
        ("repeated_outputs", "writes_by_key"): False,
    }
    # Nothing of the sinks stays beside the table.
    assert end.run.list_names("sinks") == []


def test_a_streaming_query_that_is_killed_loses_or_repeats_what_its_commit_allows(run_whole: Chain) -> None:
    end = run_whole("outputs_of_killed_streams")
    queries = ("commits_first", "commits_last", "writes_by_batch", "writes_for_each")
    assert list_faults(end) == {f"{query}-c0": ["killed"] for query in queries}
    judgement = end.judgement
    assert judgement is not None
    assert (judgement.verdict, judgement.problems) == ("passed", ())
    measured = {(row.metric, row.subject): row.value or 0 for row in judgement.measurements}
    found = {
        query: (measured["missing_outputs", query] > 0, measured["repeated_outputs", query] > 0) for query in queries
    }
    assert found == {
        "commits_first": (True, False),
        "commits_last": (False, True),
        "writes_by_batch": (False, False),
        "writes_for_each": (False, True),
    }
    # Nothing of the sinks and the checkpoints stays beside the table.
    assert (end.run.list_names("sinks"), end.run.list_names("checkpoints")) == ([], [])


def test_a_producer_that_sends_again_leaves_no_message_without_an_answer(run_whole: Chain) -> None:
    end = run_whole("producer_resends")
    assert list_faults(end) == {"log-p0": ["producer_killed"]}
    judgement = end.judgement
    assert judgement is not None
    assert (judgement.verdict, judgement.problems) == ("passed", ())
    assert (judgement.counts.acked, judgement.counts.unknown) == (judgement.counts.messages, 0)
    # The second process has sent messages of the first one again, each as a further attempt.
    assert judgement.counts.publishes > judgement.counts.messages


def test_two_producers_of_a_name_break_the_order_where_none_is_refused(run_whole: Chain) -> None:
    end = run_whole("two_producers_of_a_name")
    assert list_faults(end) == {"log-p0": ["fenced"]}
    judgement = end.judgement
    assert judgement is not None
    assert (judgement.verdict, judgement.problems) == ("failed", ())
    assert {name for name, count in judgement.counts.illegal.items() if count} == {"stored_out_of_order"}
