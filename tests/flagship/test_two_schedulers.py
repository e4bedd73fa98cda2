"""The embedded Airflow on a real PostgreSQL, with two schedulers, two campaigns at a time and ten readers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from brokerproof.clock import wait_until
from brokerproof.experiment.guarantees import Suite
from brokerproof.experiment.suite_name import STEPS
from brokerproof.machine.processes import read_start
from brokerproof.orchestration.embedded.environment import DATABASE_URL, build_airflow_environment
from brokerproof.orchestration.embedded.session import AirflowSession
from brokerproof.results.history import open_history
from history_processes import measure_shape, run_readers
from installation import Installation, lay_out_log_server
from own_postgresql import run_postgresql
from sqlalchemy import NullPool, create_engine, text

HISTORY_URL = "BROKERPROOF_DATABASE_URL"
READERS = 10
# What each campaign runs. The DAG `campaign` has one run at a time, so the second campaign is of another DAG.
CAMPAIGNS = {"campaign": ("reordering_unexpected", "repeating"), "campaign_beside": ("losing",)}
SCENARIOS = tuple(scenario for scenarios in CAMPAIGNS.values() for scenario in scenarios)
_SECOND_CAMPAIGN = """
# Airflow reads files that name it.
from brokerproof.orchestration.dag_building.campaign import build_campaign_dag

dag = build_campaign_dag(["losing"])
dag.dag_id = "campaign_beside"
"""
_RUN = "at-once"
_FOUR_AT_A_TIME = json.dumps({"conn_type": "spark", "host": "local[4]"})
_SCENARIO_TASKS = len(STEPS) + len(Suite)
# Whose runs end as failed, because their outcome is not the expected one.
_NOT_AS_EXPECTED = ("campaign", "reordering_unexpected")


@dataclass(frozen=True, kw_only=True)
class Task:
    """A row of Airflow's about a task. `scheduler` is the job that queued it."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    state: str | None = "success"
    try_number: int = 1
    scheduler: int | None = 1


@dataclass(frozen=True, kw_only=True)
class Records:
    """What Airflow and the history recorded of the campaigns."""

    # The states of the runs by DAG and run, with one entry for each row.
    runs: Sequence[tuple[str, str, str]]
    tasks: Sequence[Task]
    # Tasks that Airflow had begun and began again.
    earlier_tries: Sequence[str] = ()
    recorded: Sequence[str] = ()
    # The runs in the history whose outcome is the one that their scenario expects.
    met: Sequence[str] = ()


def find_problems(records: Records) -> Iterator[str]:
    """What two schedulers lost or repeated, in sentences."""
    counted = Counter(dag_id for dag_id, _, _ in records.runs)
    for dag_id in (*CAMPAIGNS, *SCENARIOS):
        if counted.pop(dag_id, 0) != 1:
            yield f"{dag_id} did not run once"
    yield from (f"{dag_id} ran without being triggered" for dag_id in counted)
    for dag_id, _, state in records.runs:
        if state != ("failed" if dag_id in _NOT_AS_EXPECTED else "success"):
            yield f"{dag_id} ended as {state}"
    scenario_runs = [run_id for dag_id, run_id, _ in records.runs if dag_id not in CAMPAIGNS]
    if Counter(records.recorded) != Counter(scenario_runs):
        yield f"the history has {sorted(records.recorded)} and not {sorted(scenario_runs)}"
    as_expected = {run_id for dag_id, run_id, _ in records.runs if dag_id not in (*CAMPAIGNS, *_NOT_AS_EXPECTED)}
    yield from (f"{run_id} did not come to what it had to" for run_id in sorted(as_expected ^ {*records.met}))
    sizes = Counter((task.dag_id, task.run_id) for task in records.tasks)
    for dag_id, run_id, _ in records.runs:
        wanted = count_tasks(dag_id)
        if sizes[dag_id, run_id] != wanted:
            yield f"{dag_id} has {sizes[dag_id, run_id]} tasks and not {wanted}"
    for task in records.tasks:
        if task.state not in ("success", "failed", "skipped"):
            yield f"{task.dag_id}.{task.task_id} is {task.state}"
        if task.try_number != 1:
            yield f"{task.dag_id}.{task.task_id} was tried {task.try_number} times"
    yield from (f"{name} was begun again" for name in records.earlier_tries)


def count_tasks(dag_id: str) -> int:
    """The tasks of a run: a campaign has its plan, one for each of its scenarios, and its verdict."""
    return len(CAMPAIGNS[dag_id]) + 2 if dag_id in CAMPAIGNS else _SCENARIO_TASKS


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    """An installation of the log server whose Airflow and whose history are in a PostgreSQL."""
    with run_postgresql() as server, pytest.MonkeyPatch.context() as patch:
        urls = {name: server.create_database() for name in (HISTORY_URL, DATABASE_URL)}
        # Fewer tasks at a time than by default, because two jobs of Spark share the machine's cores with each other.
        made = lay_out_log_server(
            tmp_path, BROKERPROOF_MAX_CLUSTERS="2", AIRFLOW_CONN_SPARK_DEFAULT=_FOUR_AT_A_TIME, **urls
        )
        made.add_scenario("reordering_unexpected", like="reordering", without=["expect"])
        for file in made.scenarios.iterdir():
            if file.stem not in SCENARIOS:
                file.unlink()
        (made.home / "dags" / "second_campaign.py").write_text(_SECOND_CAMPAIGN)
        for name, value in made.environment.items():
            patch.setenv(name, value)
        yield made
        made.airflow.stop()


@contextmanager
def run_second_scheduler(installation: Installation) -> Iterator[None]:
    """A scheduler beside the one of the embedded Airflow, which has to run."""
    session = installation.airflow.read_session()
    assert session is not None
    with (installation.airflow.home / "logs" / "second-scheduler.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "airflow", "scheduler", "--skip-serve-logs"],
            env=build_airflow_environment(installation.settings, session.port),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    members = AirflowSession(pid=process.pid, created=read_start(process.pid), port=session.port)
    try:
        yield
    finally:
        # Its tasks too, where the test did not wait for their end.
        members.end_members()
        process.wait(timeout=30)


def query(url: str, statement: str) -> list[Mapping[str, Any]]:
    """The rows of a query."""
    with create_engine(url, poolclass=NullPool).connect() as connection:
        return [dict(row) for row in connection.execute(text(statement)).mappings()]


def read_records(airflow_url: str, history_url: str) -> Records:
    """What both databases hold."""
    tasks = "dag_id, run_id, task_id, map_index, state, try_number, queued_by_job_id AS scheduler"
    earlier = query(airflow_url, "SELECT dag_id, task_id FROM task_instance_history")
    recorded = query(history_url, "SELECT run_id, met FROM runs")
    return Records(
        runs=[
            (row["dag_id"], row["run_id"], row["state"])
            for row in query(airflow_url, "SELECT dag_id, run_id, state FROM dag_run")
        ],
        tasks=[Task(**row) for row in query(airflow_url, f"SELECT {tasks} FROM task_instance")],
        earlier_tries=[f"{row['dag_id']}.{row['task_id']}" for row in earlier],
        recorded=[row["run_id"] for row in recorded],
        met=[row["run_id"] for row in recorded if row["met"]],
    )


def test_two_schedulers_two_campaigns_and_ten_readers_lose_and_repeat_nothing(installation: Installation) -> None:
    installation.airflow.start()
    client = installation.client()
    airflow_url, history_url = (installation.environment[name] for name in (DATABASE_URL, HISTORY_URL))
    open_history(history_url).close()
    jobs = "SELECT id FROM job WHERE job_type = 'SchedulerJob' AND state = 'running'"
    with run_second_scheduler(installation), run_readers(history_url, count=READERS, every_s=3) as sights:
        for dag_id in (*CAMPAIGNS, *SCENARIOS):
            client.wait_for_dag(dag_id)
        wait_until(lambda: len(query(airflow_url, jobs)) == 2, timeout_s=60, what="two schedulers to run")
        for dag_id, scenarios in CAMPAIGNS.items():
            client.trigger_run(dag_id, _RUN, {"scenarios": list(scenarios)})
        wait_until(
            lambda: all(client.read_state(dag_id, _RUN) in ("failed", "success") for dag_id in CAMPAIGNS),
            timeout_s=600,
            what="both campaigns to end",
            every_s=4,
        )
    records = read_records(airflow_url, history_url)
    assert list(find_problems(records)) == []
    # Both schedulers queued tasks, and neither campaign waited for the other.
    assert len({task.scheduler for task in records.tasks}) == 2
    with open_history(history_url) as history:
        recorded = history.list_runs()
    assert min(run.finished_at for run in recorded) > sorted(run.started_at for run in recorded)[1]
    whole = {measure_shape(run) for run in recorded}
    for sight in sights:
        assert (sight.shapes, sight.repeated, sight.lost) == (whole, set(), set())
    check_what_the_campaign_says(installation)


def check_what_the_campaign_says(installation: Installation) -> None:
    """The campaign ran one scenario after the other, and its sentence names the scenario that was not as expected."""
    client = installation.client()
    sentence = client.read_xcom("campaign", _RUN, "verdict", "problem")
    assert str(sentence).startswith("1 of 2 runs have the expected outcome; reordering_unexpected is failed")
    runs = {name: next(installation.settings.runs.glob(f"{name}-*-campaign")).name for name in CAMPAIGNS["campaign"]}

    def list_failed(scenario: str) -> set[str]:
        return {task.task_id for task in client.list_tasks(scenario, runs[scenario]) if task.state == "failed"}

    assert list_failed("reordering_unexpected") == {"ordering", "verdict"}
    # A control whose suite fails as it should ends green.
    assert list_failed("repeating") == {"uniqueness"}
    # `watch --json` gives the same result.
    watched = installation.brokerproof("watch", runs["reordering_unexpected"], "--json")
    assert watched.returncode == 1, watched.stderr
    outcome = json.loads(watched.stdout)
    assert outcome["verdict"] == "failed"
    assert outcome["counts"]["illegal"]["stored_out_of_order"] > 0
    for first, second in pairwise(CAMPAIGNS["campaign"]):
        ended = installation.state(runs[first], "step_seconds-verify")
        started = installation.state(runs[second], "step_seconds-reserve")
        assert ended is not None
        assert started is not None
        assert ended["finished_at"] < started["started_at"]


def make_records() -> Records:
    """What two campaigns leave in which everything went well."""
    named = [(dag_id, _RUN) for dag_id in CAMPAIGNS] + [(scenario, f"{scenario}-1") for scenario in SCENARIOS]
    runs = [(dag_id, run_id, "failed" if dag_id in _NOT_AS_EXPECTED else "success") for dag_id, run_id in named]
    return Records(
        runs=runs,
        tasks=[
            Task(dag_id=dag_id, run_id=run_id, task_id=f"task-{number}")
            for dag_id, run_id in named
            for number in range(count_tasks(dag_id))
        ],
        recorded=[f"{scenario}-1" for scenario in SCENARIOS],
        met=[f"{scenario}-1" for scenario in SCENARIOS if scenario not in _NOT_AS_EXPECTED],
    )


GOOD = make_records()


@pytest.mark.parametrize(
    ("records", "problem"),
    [
        (replace(GOOD, runs=GOOD.runs[1:]), "campaign did not run once"),
        (replace(GOOD, runs=[*GOOD.runs, ("losing", "losing-2", "success")]), "losing did not run once"),
        (replace(GOOD, runs=[*GOOD.runs, ("endless", "x", "success")]), "endless ran without being triggered"),
        (replace(GOOD, runs=[*GOOD.runs[:-1], ("losing", "losing-1", "queued")]), "losing ended as queued"),
        (replace(GOOD, recorded=GOOD.recorded[1:]), "the history has "),
        (replace(GOOD, recorded=[*GOOD.recorded, "losing-1"]), "the history has "),
        (replace(GOOD, met=GOOD.met[1:]), "repeating-1 did not come to what it had to"),
        (replace(GOOD, tasks=GOOD.tasks[1:]), "campaign has 3 tasks and not 4"),
        (replace(GOOD, tasks=GOOD.tasks[:-1]), "losing has 15 tasks and not 16"),
        (replace(GOOD, tasks=[replace(GOOD.tasks[0], state=None), *GOOD.tasks[1:]]), "campaign.task-0 is None"),
        (replace(GOOD, tasks=[replace(GOOD.tasks[0], try_number=2), *GOOD.tasks[1:]]), "campaign.task-0 was tried 2"),
        (replace(GOOD, earlier_tries=["losing.verify"]), "losing.verify was begun again"),
    ],
)  # fmt: skip
def test_what_is_lost_or_repeated_is_named(records: Records, problem: str) -> None:
    assert list(find_problems(GOOD)) == []
    assert any(found.startswith(problem) for found in find_problems(records))
