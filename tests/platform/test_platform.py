"""The platform of docker-compose.yaml as a team uses it: a run from Airflow's UI, on Spark's workers, in containers."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import docker
import httpx
import pytest
from brokerproof.clock import wait_until
from brokerproof.orchestration.dag_run import derive_run_id
from brokerproof.orchestration.follow.airflow_client import AirflowClient
from own_browser import log_in, open_browser, open_page, send_trigger_form

from .conftest import Platform

SCENARIO = "control_bookie_destroyed"
NODES = {"metadata-1", "bookie-1", "bookie-2", "broker-1"}
RUN_LABEL = "org.brokerproof.run"

# The first test waits for the images. They take 5 minutes of two idle processors, and more than 15 of two busy ones.
pytestmark = pytest.mark.timeout(2400)


def connect(platform: Platform) -> AirflowClient:
    return AirflowClient(lambda: platform.url("airflow"), "admin", platform.secrets["airflow_admin_password"])


def ask_prometheus(platform: Platform, path: str, **parameters: str) -> Any:
    answer = httpx.get(f"{platform.url('prometheus')}/api/v1/{path}", params=parameters, trust_env=False, timeout=60)
    return answer.raise_for_status().json()["data"]


def list_node_targets(platform: Platform, run_id: str) -> dict[str, str]:
    """The health of every node of a run that Prometheus knows."""
    targets = ask_prometheus(platform, "targets")["activeTargets"]
    return {each["labels"]["node"]: each["health"] for each in targets if each["labels"].get("run") == run_id}


def read_outcome(platform: Platform, run_id: str) -> dict[str, Any]:
    read = platform.execute("scheduler", "cat", f"var/runs/{run_id}/state/outcome.json")
    assert read.returncode == 0, read.stderr
    outcome: dict[str, Any] = json.loads(read.stdout)
    return outcome


def test_nothing_listens_beyond_this_machine(platform: Platform) -> None:
    own = platform.client.containers(filters={"label": f"com.docker.compose.project={platform.project}"})
    ports = [port for container in own for port in container["Ports"] if "PublicPort" in port]
    assert len(ports) == 3
    assert {port["IP"] for port in ports} == {"127.0.0.1"}


def is_well(container: Mapping[str, Any]) -> bool:
    """Whether a container runs, was never started again and, where it has a health check, passes it."""
    state = container["State"]
    healthy = state.get("Health", {"Status": "healthy"})["Status"] == "healthy"
    return bool(state["Status"] == "running" and container["RestartCount"] == 0 and healthy)


def test_every_service_is_healthy(platform: Platform) -> None:
    label = f"com.docker.compose.project={platform.project}"

    def list_unwell() -> list[str]:
        states = [
            platform.client.inspect_container(each["Id"])
            for each in platform.client.containers(all=True, filters={"label": label})
        ]
        return [each["Name"] for each in states if "initialize" not in each["Name"] and not is_well(each)]

    wait_until(lambda: not list_unwell(), timeout_s=240, what="every service to be healthy", every_s=1)


def list_services(platform: Platform) -> dict[str, dict[str, Any]]:
    """How the engine describes the container of each service."""
    label = f"com.docker.compose.project={platform.project}"
    containers = platform.client.containers(all=True, filters={"label": label})
    inspected = [platform.client.inspect_container(each["Id"]) for each in containers]
    return {each["Config"]["Labels"]["com.docker.compose.service"]: each for each in inspected}


def test_every_container_is_confined(platform: Platform) -> None:
    services = list_services(platform)
    assert len(services) == 12
    for name, container in services.items():
        host = container["HostConfig"]
        assert (host["CapDrop"], host["CapAdd"] or [], host["Privileged"]) == (["ALL"], [], False), name
        assert host["SecurityOpt"] == ["no-new-privileges:true"], name
        assert host["ReadonlyRootfs"], name
        assert min(host["Memory"], host["NanoCpus"], host["PidsLimit"]) > 0, name
        assert host["LogConfig"] == {"Type": "json-file", "Config": {"max-file": "3", "max-size": "10m"}}, name
        assert "Healthcheck" in container["Config"] or name == "initialize", name


def test_no_secret_is_in_an_environment_or_a_command(platform: Platform) -> None:
    """Who may inspect containers reads both."""
    values = {value for value in platform.secrets.values() if value}
    passwords = values | {url.split(":")[2].split("@")[0] for url in values if "://" in url}
    assert len(passwords) > 10
    for name, container in list_services(platform).items():
        shown = json.dumps(container)
        assert [one for one in passwords if one in shown] == [], name


SECRETS = {
    "postgres": {"postgres_password"},
    "results": {"history_reader_url"},
    "api-server": {
        *("airflow_database_url", "airflow_fernet_key", "airflow_secret_key", "airflow_jwt_secret"),
        *("history_reader_url", "oidc_client_secret"),
    },
    "spark-master": {"spark_secret"},
    "spark-worker-1": {"spark_secret"},
    "spark-worker-2": {"spark_secret"},
    "engine": set(),
    "prometheus": set(),
    "grafana": {"grafana_admin_password"},
}


@pytest.mark.parametrize("service", SECRETS)
def test_a_service_has_no_other_secret_than_its_own(platform: Platform, service: str) -> None:
    mounts = {mount["Destination"] for mount in list_services(platform)[service]["Mounts"]}
    assert {path.removeprefix("/run/secrets/") for path in mounts if "/secrets/" in path} == SECRETS[service]


def test_only_the_scheduler_has_the_socket_with_which_nodes_are_made(platform: Platform) -> None:
    services = list_services(platform).items()
    having = {name for name, one in services for mount in one["Mounts"] if mount["Destination"] == "/run/engine"}
    assert having == {"engine", "scheduler"}


DOORS = {
    "postgres": 5432,
    "api-server": 8080,
    "spark-master": 7077,
    "spark-worker-2": 8081,
    "results": 9101,
    "prometheus": 9090,
    "grafana": 3000,
}


@pytest.mark.parametrize(
    ("service", "reachable"),
    [
        ("scheduler", {"postgres", "api-server", "spark-master", "spark-worker-2", "results"}),
        ("api-server", {"postgres", "api-server", "results"}),
        ("results", {"postgres", "api-server", "results", "prometheus", "grafana"}),
        ("spark-worker-1", {"spark-master", "spark-worker-2"}),
    ],
)
def test_a_service_reaches_only_the_services_of_its_networks(
    platform: Platform, service: str, reachable: set[str]
) -> None:
    # At the same time, because a network without a way out takes seconds to say that it does not know a name.
    code = f"""
import json, socket
from concurrent.futures import ThreadPoolExecutor

def connects(door):
    try:
        socket.create_connection(door, timeout=5).close()
    except OSError:
        return False
    return True

doors = {DOORS!r}
with ThreadPoolExecutor(len(doors)) as pool:
    print(json.dumps([host for host, is_open in zip(doors, pool.map(connects, doors.items())) if is_open]))
"""
    assert set(json.loads(platform.ask(service, "python", "-c", code))) == reachable


def test_sparks_master_refuses_jobs_without_the_secret(platform: Platform) -> None:
    """A process that reaches the master could otherwise run code on workers that hold the runs."""
    master = list_services(platform)["spark-master"]["Id"]

    def count_refusals() -> int:
        log = platform.client.logs(master).decode()
        return len(re.findall(r"Master: \S+ got disassociated", log))

    before = count_refusals()
    wrong = "--conf spark.authenticate=true --conf spark.network.crypto.enabled=true --conf spark.authenticate.secret=x"
    # A job that is ended before the master has refused it would let the wait below go on in vain.
    limit_s = 240
    for number, secret in enumerate(("", wrong)):
        job = f"/tmp/intruder-{number}.py"
        submit = (
            "export JAVA_HOME=$(python -c "
            "'from brokerproof.machine.java import find_spark_java_home as f; print(f())'); "
            f"echo 'from pyspark.sql import SparkSession as S; S.builder.getOrCreate().range(7).count()' > {job}; "
            f"timeout {limit_s} spark-submit --master spark://spark-master:7077 {secret} --name intruder {job}"
        )
        scheduler = list_services(platform)["scheduler"]["Id"]
        made = platform.client.exec_create(scheduler, ["sh", "-c", submit])
        platform.client.exec_start(made["Id"], detach=True)
    wait_until(lambda: count_refusals() >= before + 2, timeout_s=limit_s, what="the master to refuse both", every_s=0.5)
    read = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:8080/json/').read())"
    assert "intruder" not in platform.ask("spark-master", "python", "-c", read)
    assert "Registering app intruder" not in platform.client.logs(master).decode()


def test_no_service_of_ours_is_root(platform: Platform) -> None:
    for service in ("api-server", "scheduler", "spark-master", "spark-worker-1", "results"):
        assert platform.execute(service, "id", "-u").stdout.strip() == "10001", service


def test_nobody_gets_in_without_the_password(platform: Platform) -> None:
    url = platform.url("airflow")
    assert httpx.get(f"{url}/api/v2/dags", trust_env=False, timeout=60).status_code == 401
    assert httpx.get(f"{url}/brokerproof/", trust_env=False, timeout=60).status_code in (302, 307, 401, 403)
    wrong = httpx.post(
        f"{url}/auth/token", json={"username": "admin", "password": "admin"}, trust_env=False, timeout=60
    )
    assert wrong.status_code == 401


def test_a_viewer_who_was_added_by_a_command_reads_and_starts_nothing(platform: Platform) -> None:
    person = ("--username", "viewer", "--firstname", "V", "--lastname", "V", "--email", "viewer@example.com")
    added = platform.execute(
        "scheduler", "airflow", "users", "create", *person, "--role", "Viewer", "--password", "of the viewer"
    )
    assert added.returncode == 0, added.stderr
    url = platform.url("airflow")
    credentials = {"username": "viewer", "password": "of the viewer"}
    token = httpx.post(f"{url}/auth/token", json=credentials, trust_env=False, timeout=60).json()["access_token"]
    with httpx.Client(
        base_url=url, headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=60
    ) as viewer:
        assert viewer.get("/brokerproof/").status_code == 200
        run = {"dag_run_id": "of-a-viewer", "logical_date": None}
        assert viewer.post(f"/api/v2/dags/{SCENARIO}/dagRuns", json=run).status_code == 403


def test_the_image_says_what_is_in_it(platform: Platform) -> None:
    bill = json.loads(platform.execute("scheduler", "cat", "sbom.cdx.json").stdout)
    assert bill["bomFormat"] == "CycloneDX"
    assert {"apache-airflow-core", "pyspark", "great-expectations"} <= {
        each["name"].replace("_", "-") for each in bill["components"]
    }


def test_a_run_from_the_ui_on_spark_and_containers_finds_what_was_lost(platform: Platform) -> None:
    client = connect(platform)
    client.wait_for_dag(SCENARIO)
    with open_browser() as browser, open_page(browser, platform.url("airflow")) as page:
        page.goto("/")
        log_in(page, platform.secrets["airflow_admin_password"])
        page.get_by_text("Stats").first.wait_for()
        page.goto(f"/dags/{SCENARIO}")
        page.get_by_role("button", name="Trigger").first.click()
        dag_run_id = send_trigger_form(page, SCENARIO).json()["dag_run_id"]
    run_id = derive_run_id(SCENARIO, dag_run_id)
    seen: dict[str, str] = {}

    def is_over() -> bool:
        try:
            found = list_node_targets(platform, run_id)
        except httpx.ConnectError:
            # Prometheus joins and leaves the run's networks. If the name of such a network is before that of its own
            # network, Docker moves the published port to it, and refuses connections meanwhile.
            return False
        seen.update({node: "up" for node, health in found.items() if health == "up"})
        return client.read_state(SCENARIO, dag_run_id) in ("failed", "success")

    began = time.monotonic()
    wait_until(is_over, timeout_s=1000, what="the run to end", every_s=1)
    print(f"the run took {time.monotonic() - began:.0f} s")
    outcome = read_outcome(platform, run_id)
    assert (outcome["verdict"], outcome["met"], outcome["runtime"]) == ("failed", True, "docker"), outcome["why"]
    # Every node was a target that was up.
    assert set(seen) == NODES
    assert outcome["counts"]["illegal"]["lost"] > 0
    assert outcome["triggered_by"] == "admin"
    # A control whose suite fails as it should ends green.
    tasks = {task.task_id: task.state for task in client.list_tasks(SCENARIO, dag_run_id)}
    red = {name for name, state in tasks.items() if state == "failed"}
    # On a slow machine, a producer may wait for its acks when the load ends. Then `recovery` is unknown, and red too.
    not_passed = {name for name, verdict in outcome["suites"].items() if verdict not in ("passed", "not_applicable")}
    assert red == not_passed, outcome["suites"]
    assert outcome["suites"]["completeness"] == "failed"
    assert client.read_state(SCENARIO, dag_run_id) == "success"
    # It ran on Spark's workers.
    log = platform.execute("scheduler", "sh", "-c", f"cat airflow/logs/dag_id={SCENARIO}/*/task_id=load/*.log").stdout
    assert "--master spark://spark-master:7077" in log
    # Nothing of it is left.
    assert platform.list_containers(RUN_LABEL) == []
    assert platform.client.networks(filters={"label": RUN_LABEL}) == []
    assert (platform.client.volumes(filters={"label": RUN_LABEL})["Volumes"] or []) == []
    wait_until(lambda: not list_node_targets(platform, run_id), timeout_s=30, what="Prometheus to drop the nodes")


def test_results_reach_prometheus_from_the_history(platform: Platform) -> None:
    query = f'brokerproof_last_run_as_expected{{scenario="{SCENARIO}",runtime="docker"}}'
    [sample] = wait_until(
        lambda: ask_prometheus(platform, "query", query=query)["result"], timeout_s=90, what="the last run's sample"
    )
    assert sample["value"][1] == "1"
    shown = platform.execute("scheduler", "brokerproof", "history", SCENARIO, "--json")
    assert [run["verdict"] for run in json.loads(shown.stdout)] == ["failed"]


# Answers with the status to a call at a socket.
ASK = (
    "import http.client, socket, sys; c = http.client.HTTPConnection('engine'); "
    "c.sock = socket.socket(socket.AF_UNIX); c.sock.settimeout(20); "
    "c.sock.connect(sys.argv[1]); c.request(*sys.argv[2:]); print(c.getresponse().status)"
)


def ask_engine(platform: Platform, socket: str, method: str, path: str) -> int:
    """The status of the answer at a socket of the proxy. tests/containers/test_engine_proxy.py has more attempts."""
    return int(platform.ask("scheduler", "python", "-c", ASK, socket, method, path))


def list_sockets(platform: Platform, service: str) -> list[str]:
    """The directories of sockets that the container of a service has."""
    labels = [f"com.docker.compose.project={platform.project}", f"com.docker.compose.service={service}"]
    found: list[str] = []
    for each in platform.client.containers(all=True, filters={"label": labels}):
        for mount in each["Mounts"]:
            is_of_proxy = mount.get("Name", "").endswith(("_engine", "_discovery"))
            if is_of_proxy or mount["Source"].endswith("docker.sock"):
                found.append(mount["Destination"])
    return found


def test_the_scheduler_has_the_proxy_for_runs_and_prometheus_its_own(platform: Platform) -> None:
    services = platform.compose("config", "--services").stdout.split()
    having = {service: sockets for service in services if (sockets := list_sockets(platform, service))}
    assert sorted(having.pop("engine")) == ["/run/discovery", "/run/engine", "/var/run/docker.sock"]
    assert having == {"scheduler": ["/run/engine"], "prometheus": ["/run/discovery"]}


def test_the_scheduler_reaches_the_nodes_of_its_runs_and_no_other_container(platform: Platform) -> None:
    at, own = "/run/engine/docker.sock", f"brokerproof-{platform.environment['BROKERPROOF_INSTALLATION']}-run-n1"
    assert ask_engine(platform, at, "GET", "/version") == 200
    assert ask_engine(platform, at, "POST", f"/containers/{own}/start") == 404
    [postgres] = platform.client.containers(filters={"label": "com.docker.compose.service=postgres"})
    for name in (postgres["Id"], postgres["Names"][0].lstrip("/")):
        assert ask_engine(platform, at, "GET", f"/containers/{name}/json") == 403
        assert ask_engine(platform, at, "POST", f"/containers/{name}/kill") == 403
    assert ask_engine(platform, at, "GET", "/containers/json") == 403


def test_nobody_can_write_into_the_proxy(platform: Platform) -> None:
    [engine] = platform.client.containers(filters={"label": "com.docker.compose.service=engine"})
    with pytest.raises(docker.errors.APIError, match="read-only"):
        platform.client.put_archive(engine["Id"], "/usr/local", b"\0" * 1024)


def test_without_secrets_compose_says_how_to_make_them(platform: Platform, tmp_path: Path) -> None:
    bare = {name: value for name, value in platform.environment.items() if name != "BROKERPROOF_INSTALLATION"}
    (tmp_path / "env").touch()
    said = Platform(platform.client, platform.project, bare, {}).compose("--env-file", str(tmp_path / "env"), "config")
    assert said.returncode != 0
    assert re.search(r"run make compose-secrets", said.stderr)


def start_nodes(platform: Platform, run_id: str) -> None:
    """Trigger a run and wait until nodes of it are there."""
    connect(platform).trigger_run(SCENARIO, run_id, {})
    wait_until(lambda: len(platform.list_containers(RUN_LABEL)) >= 2, timeout_s=180, what="nodes to be there")


@pytest.mark.timeout(900)
def test_what_a_killed_scheduler_leaves_is_removed_by_down_and_nothing_else_is(platform: Platform) -> None:
    """All tasks are killed with it, and everything that would clean up after them."""
    start_nodes(platform, f"{SCENARIO}-killed")
    assert platform.compose("kill", "--signal", "SIGKILL", "scheduler").returncode == 0
    assert platform.list_containers(RUN_LABEL)
    others = platform.list_containers(f"com.docker.compose.project={platform.project}")
    assert platform.compose("up", "--detach", "scheduler").returncode == 0
    assert platform.list_containers(RUN_LABEL), "somebody else removed them"
    done = platform.execute("scheduler", "brokerproof", "down", "--here")
    assert done.returncode == 0, done.stderr
    assert platform.list_containers(RUN_LABEL) == []
    assert platform.client.networks(filters={"label": RUN_LABEL}) == []
    assert (platform.client.volumes(filters={"label": RUN_LABEL})["Volumes"] or []) == []
    assert sorted(platform.list_containers(f"com.docker.compose.project={platform.project}")) == sorted(others)
    # The orphaned run would go on when its tasks are found dead.
    connect(platform).cancel_run(SCENARIO, f"{SCENARIO}-killed")


@pytest.mark.timeout(900)
def test_down_in_the_middle_of_a_run_leaves_nothing(platform: Platform) -> None:
    start_nodes(platform, f"{SCENARIO}-cut-off")
    done = platform.compose("down", "--volumes")
    assert done.returncode == 0, done.stderr[-3000:]
    assert platform.list_containers(RUN_LABEL) == []
    assert platform.list_containers(f"com.docker.compose.project={platform.project}") == []
    for label in (RUN_LABEL, f"com.docker.compose.project={platform.project}"):
        assert platform.client.networks(filters={"label": label}) == []
        assert (platform.client.volumes(filters={"label": label})["Volumes"] or []) == []
