from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pendulum
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.dagrun import DagRun
from airflow.sdk import DAG
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.decoders import decode_timetable
from airflow.serialization.encoders import encode_timetable
from airflow.timetables.base import TimeRestriction
from brokerproof.checks import load_scenario
from brokerproof.orchestration.dag_building.scenario_page import write_page
from brokerproof.orchestration.follow.airflow_client import TEARDOWN
from builders import ROOT, SCENARIOS, TOPOLOGIES, load_shipped

from ..conftest import SCENARIO

SUITES = ["completeness", "uniqueness", "ordering", "placement", "recovery"]


class State(NamedTuple):
    """The part of a task instance that decides a DAG run's state."""

    task_id: str
    state: str


def load() -> DagBag:
    """The DAGs as Airflow's DAG processor reads them."""
    return DagBag(str(ROOT / "dags"))


@pytest.fixture
def dag(scenarios: Path) -> DAG:
    return load().dags["region_lost"]


def test_every_scenario_of_the_project_has_its_dag_and_no_file_fails() -> None:
    bag = load()
    assert bag.import_errors == {}
    names = {file.stem for file in SCENARIOS.glob("*.yaml")}
    assert names
    assert set(bag.dags) == names | {"campaign", "clean_up"}


def test_dag_files_import_nothing_that_takes_seconds(scenarios: Path) -> None:
    code = (
        "import json, sys; from airflow.dag_processing.dagbag import DagBag;"
        f"before = set(sys.modules); bag = DagBag({str(ROOT / 'dags')!r});"
        "assert not bag.import_errors, bag.import_errors;"
        "print(json.dumps([name.split('.')[0] for name in sorted(set(sys.modules) - before)]));"
        "print(json.dumps('rfc3987_syntax' in before))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    imported, of_iris = map(json.loads, output.splitlines()[-2:])
    assert "brokerproof" in imported
    assert not set(imported) & {"pyspark", "pulsar", "_pulsar", "great_expectations", "pandas", "jgo"}
    # A grammar of IRIs: jsonschema imports it where it is installed, and each process of Airflow takes 1.5 s longer.
    assert not of_iris


def test_the_task_graph_has_exactly_these_edges(dag: DAG) -> None:
    edges = {task.task_id: task.downstream_task_ids - {"record", "verdict"} for task in dag.tasks}
    assert edges == {
        "reserve": {"provision", "load", "consume", "release"},
        "provision": {"configure"},
        "configure": {"break_it"},
        "load": {"read_back"},
        "consume": {"read_back"},
        "break_it": {"read_back", "release"},
        "read_back": {"verify", "release"},
        "verify": set(SUITES),
        **{suite: set() for suite in SUITES},
        "release": set(),
        "record": set(),
        "verdict": set(),
    }


def test_reserve_is_the_setup_of_release_record_and_verdict(dag: DAG) -> None:
    assert [task.task_id for task in dag.tasks if task.is_setup] == ["reserve"]
    teardowns = {task.task_id for task in dag.tasks if task.is_teardown}
    assert teardowns == {"release", "record", "verdict"} == set(TEARDOWN)
    assert teardowns <= dag.task_dict["reserve"].downstream_task_ids


def test_release_does_not_wait_for_verify(dag: DAG) -> None:
    assert "verify" not in dag.task_dict["release"].get_flat_relative_ids(upstream=True)


def test_verify_runs_also_after_a_failed_load(dag: DAG) -> None:
    assert dag.task_dict["verify"].trigger_rule == "all_done"


def test_load_and_consumers_do_not_wait_for_clusters_that_never_come(dag: DAG) -> None:
    """They begin before the clusters, and only `break_it` ends them if there are none."""
    assert dag.task_dict["break_it"].trigger_rule == "all_done"


def test_only_verdict_decides_the_dag_runs_state(dag: DAG) -> None:
    """The suites of a control have to fail, and its DAG run has to succeed."""
    states = [State(task.task_id, "success") for task in dag.tasks]
    decisive = DagRun._tis_for_dagrun_state(None, dag=dag, tis=states)  # type: ignore[arg-type]
    assert {state.task_id for state in decisive} == {"verdict"}


def test_no_timeout_can_skip_the_teardown(dag: DAG) -> None:
    assert dag.dagrun_timeout is None
    assert dag.tasks
    assert [task.task_id for task in dag.tasks if task.execution_timeout is None] == []


def test_only_what_can_be_done_twice_is_done_again_where_its_task_was_killed(dag: DAG) -> None:
    once = {"reserve", "provision", "configure", "load", "consume", "break_it", "read_back"}
    assert {task.task_id for task in dag.tasks if task.retries == 0} == once


def test_a_longer_scenario_may_take_longer(scenarios: Path) -> None:
    (scenarios / "long.yaml").write_text(SCENARIO.replace("steady_s: 20", "steady_s: 7200"))
    assert load().dags["long"].task_dict["load"].execution_timeout.total_seconds() > 7200


def test_spark_steps_go_through_the_connection(dag: DAG) -> None:
    for step in ("load", "consume", "read_back", "verify"):
        assert dag.task_dict[step]._conn_id == "spark_default"


def test_the_cluster_of_a_run_is_a_new_one_unless_another_one_is_chosen(dag: DAG) -> None:
    assert list(dag.params) == ["settings", "cluster"]
    cluster = dag.params.get_param("cluster")
    assert [cluster.resolve(), cluster.resolve("reuse"), cluster.resolve("keep")] == ["new", "reuse", "keep"]
    for refused in ("old", True, 1):
        with pytest.raises(ParamValidationError):
            cluster.resolve(refused)


def test_the_parameter_takes_paths_of_a_scenario(dag: DAG) -> None:
    settings = dag.params.get_param("settings")
    assert settings.resolve() == {}
    for accepted in ({"workload.rate": 2000, "version": "4.0.8"}, None):
        assert settings.resolve(accepted) == accepted
    for refused in ({"wrkload.rate": 2000}, {"rate": 2000}, "workload.rate", 7):
        with pytest.raises(ParamValidationError):
            settings.resolve(refused)


def test_the_description_of_the_parameter_has_an_example_that_can_be_used(dag: DAG, scenarios: Path) -> None:
    settings = dag.params.get_param("settings")
    example = json.loads(re.search(r"\{.*\}", settings.description or "")[0])  # type: ignore[index]
    assert settings.resolve(example) == example
    load_scenario(scenarios / "region_lost.yaml", TOPOLOGIES, example)


def test_the_page_shows_the_main_parts_of_a_scenario(dag: DAG) -> None:
    for said in ("at_least_once", "sync_active_passive", "broker-us-2", "`eu_destroyed`: destroy region eu", "rto_s"):
        assert said in (dag.doc_md or "")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sync_datacenter_loss_cold", "broker-us-1 (on standby)"),
        ("sync_datacenter_loss_cold", "once no node of `eu_destroyed` was healthy for 10 s"),
        ("sync_bookie_then_datacenter_loss", "once `bookie_killed` is re-replicated"),
        ("sync_write_latency", "`at_20_ms`: delay region eu (delay_ms 20"),
        ("sync_write_latency", "| eu – us | 0 ms | 0 ms |  |"),
        ("sync_write_latency", "on each of stretched, replicated, local"),
        ("geo_nominal", "| all | witness | metadata-1 |"),
        ("geo_replicated_subscription", "`mover` (failover, state replicated) on cluster-eu, from 5 s after"),
        ("sync_region_partition_metadata_passive", "2 producers in us"),
        ("search_sync", "| `owner_frozen` | pause now topic_owner | 2 to 30 s |"),
    ],
)
def test_the_page_shows_special_parts_of_a_scenario(name: str, said: str) -> None:
    assert said in write_page(*load_shipped(name))


def test_the_page_shows_warnings_where_there_are_any(scenarios: Path, tmp_path: Path) -> None:
    (scenarios / "short.yaml").write_text(SCENARIO.replace("impact_s: 75", "impact_s: 20"))
    dags = load().dags
    assert "- `bounds.rto_s.max`: the load ends 40 s after `eu_destroyed`" in (dags["short"].doc_md or "")
    assert "**Warnings**" not in (dags["region_lost"].doc_md or "")
    # No page asks a database.
    assert not (tmp_path / "var" / "history.db").exists()


def test_a_scenario_that_expects_a_failure_is_tagged_as_control(scenarios: Path) -> None:
    (scenarios / "shows_the_loss.yaml").write_text(SCENARIO + "expect: {verdict: failed, at_least: {lost: 1}}\n")
    dags = load().dags
    assert dags["shows_the_loss"].tags == {"datacenter", "sync_active_passive", "at_least_once", "control"}
    assert "control" not in dags["region_lost"].tags


def test_an_import_error_names_broken_scenarios_and_the_other_dags_load(scenarios: Path) -> None:
    (scenarios / "broken.yaml").write_text(SCENARIO.replace("size: 200", "sizes: 200"))
    (scenarios / "torn.yaml").write_text("title: [")
    bag = load()
    assert set(bag.dags) == {"region_lost", "campaign", "clean_up"}
    ((file, message),) = bag.import_errors.items()
    # Not the file of the usable ones: Airflow runs no DAG of a file with an import error.
    assert Path(file).name == "unusable_scenarios.py"
    for said in ("broken.yaml: workload.sizes: unknown field `sizes` (did you mean `size`?)", "torn.yaml: line 1"):
        assert said in message


def test_the_campaign_runs_every_scenario_one_after_the_other(scenarios: Path) -> None:
    campaign = load().dags["campaign"]
    assert campaign.is_paused_upon_creation
    assert campaign.params["scenarios"] == ["region_lost"]
    assert campaign.task_dict["run"].max_active_tis_per_dagrun == 1
    assert campaign.task_dict["verdict"].trigger_rule == "all_done"


def test_airflow_loads_the_plugin_and_nothing_else_of_its_folder() -> None:
    code = (
        "import json, sys, pathlib; from airflow import plugins_manager as manager;"
        "plugins, errors = manager._get_plugins();"
        f"folder = pathlib.Path({str(ROOT / 'plugins')!r});"
        "bare = [name for name, module in sys.modules.items() if '.' not in name and name != 'brokerproof'"
        " and folder in pathlib.Path(getattr(module, '__file__', None) or '/').parents];"
        "import pulsar;"
        "print(json.dumps([[p.name for p in plugins], errors, bare, pulsar.__file__]))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    names, errors, bare, pulsar = json.loads(output.splitlines()[-1])
    assert "brokerproof" in names
    assert errors == {}
    assert bare == ["brokerproof_plugin"]
    assert "site-packages" in pulsar


def test_unpausing_the_campaign_starts_nothing_before_the_night(
    scenarios: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's own default starts a missed run up to 2.4 hours later; here it is 30 minutes later."""
    now = pendulum.datetime(2026, 11, 21, 1, 30)
    monkeypatch.setattr("airflow.timetables.trigger.utcnow", lambda: now)
    timetable = encode_timetable(load().dags["campaign"].timetable)
    first = decode_timetable(timetable).next_dagrun_info(
        last_automated_data_interval=None, restriction=TimeRestriction(earliest=None, latest=None, catchup=False)
    )
    assert first is not None
    assert first.run_after == pendulum.datetime(2026, 11, 22, 1)
