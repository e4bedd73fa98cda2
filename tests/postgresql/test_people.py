"""The team's Airflow with its users: FAB on a real PostgreSQL, with Brokerproof's plugin, in a browser and by its API.

Only Airflow's API server runs, with the auth manager of docker-compose.yaml. The platform before had Airflow's simple
auth manager, and its database knew no users.
"""

from __future__ import annotations

import re
import secrets
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from brokerproof.clock import wait_until
from brokerproof.orchestration.embedded.airflow_supervisor import DATABASE_URL
from brokerproof.orchestration.embedded.environment import build_airflow_environment, get_password_file
from brokerproof.orchestration.follow.airflow_client import AirflowClient
from brokerproof.results.history import open_history
from installation import PROJECT, SYSTEMS, lay_out_log_server
from own_browser import log_in, open_browser, open_page, send_trigger_form
from own_postgresql import Postgresql
from planted_runs import plant_run
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import Engine, MetaData, NullPool, create_engine, insert, select, text

DEPLOY = PROJECT / "deploy" / "airflow"
RUN = "nominal-of-alice"
ROLES = {"viewer": "Viewer", "operator": "User", "admin": "Admin"}
# What an earlier version left in Airflow's database, and what only FAB has there.
KEPT = {"key": "kept", "val": "of the version before", "is_encrypted": False}
TABLES_OF_USERS = re.compile(r"ab_|session$|alembic_version_fab")


@dataclass(frozen=True)
class People:
    """An Airflow with users, one for each role, which has the role's name."""

    url: str
    environment: dict[str, str]
    engine: Engine
    passwords: dict[str, str]

    def ask_token(self, user: str, password: str) -> httpx.Response:
        credentials = {"username": user, "password": password}
        return httpx.post(f"{self.url}/auth/token", json=credentials, timeout=60, trust_env=False)

    def log_in(self, user: str) -> httpx.Client:
        """A client that is logged in with a token, as a program is."""
        token = self.ask_token(user, self.passwords[user]).json()["access_token"]
        return httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=60, trust_env=False
        )

    def list_runs(self) -> dict[str, str | None]:
        """By id, who triggered each DAG run of the scenario `nominal`."""
        with self.log_in("admin") as client:
            runs = client.get("/api/v2/dags/nominal/dagRuns").json()["dag_runs"]
        return {run["dag_run_id"]: run["triggering_user_name"] for run in runs}

    def execute(self, *command: str, **environment: str) -> str:
        """What a command writes. Raises subprocess.CalledProcessError if it fails."""
        done = subprocess.run(
            command, env=self.environment | environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        return done.stdout


@pytest.fixture(scope="module")
def people(server: Postgresql, tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    """The Airflow, upgraded from the version before, with a recorded run."""
    home = tmp_path_factory.mktemp("people")
    database = server.create_database()
    made = lay_out_log_server(home)
    # FAB writes several rows for each DAG.
    for file in made.scenarios.glob("*.yaml"):
        if file.stem != "nominal":
            file.unlink()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    made.settings.airflow_home.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**made.environment, DATABASE_URL: database}.items():
            patch.setenv(name, value)
        before = build_airflow_environment(made.settings, port)
        run = plant_run(
            made.settings.runs / RUN, SYSTEMS / "scenarios" / "nominal.yaml", SYSTEMS / "topologies",
            at=datetime(2026, 1, 20, tzinfo=UTC), triggered_by="alice",
        )  # fmt: skip
        with open_history() as history:
            history.record(run)
    compose = yaml.safe_load((PROJECT / "docker-compose.yaml").read_text())
    shipped = compose["services"]["api-server"]["environment"]
    ours = {name: shipped[name] for name in shipped if "__FAB__" in name or name.endswith("__AUTH_MANAGER")}
    ours["AIRFLOW__FAB__CONFIG_FILE"] = ours["AIRFLOW__FAB__CONFIG_FILE"].replace("/opt/brokerproof", str(PROJECT))
    passwords = {name: secrets.token_urlsafe(12) for name in ROLES}
    engine = create_engine(database, poolclass=NullPool)
    up = People(before["AIRFLOW__API__BASE_URL"], {**before, **ours}, engine, passwords)
    up.execute("airflow", "db", "migrate", **{name: before[name] for name in before if name.endswith("__AUTH_MANAGER")})
    plant_version_before(engine)
    up.execute("sh", str(DEPLOY / "initialize.sh"), AIRFLOW_ADMIN_PASSWORD=passwords["admin"])
    log = (home / "api-server.log").open("wb")
    process = subprocess.Popen(["airflow", "api-server"], env=up.environment, stdout=log, stderr=log)
    try:
        up.execute("airflow", "dags", "reserialize")

        def is_up() -> bool:
            assert process.poll() is None, (home / "api-server.log").read_text()[-3000:]
            try:
                return httpx.get(f"{up.url}/api/v2/version", timeout=30, trust_env=False).is_success
            except httpx.HTTPError:
                return False

        wait_until(is_up, timeout_s=120, what="Airflow's API server")
        with up.log_in("admin") as client:
            for name in ("viewer", "operator"):
                person = {"username": name, "first_name": name, "last_name": name, "email": f"{name}@example.com"}
                made_user = {**person, "roles": [{"name": ROLES[name]}], "password": passwords[name]}
                assert client.post("/auth/fab/v1/users", json=made_user).is_success
        yield up
    finally:
        process.terminate()
        process.wait(timeout=60)
        log.close()
        engine.dispose()
        server.drop_database(database)


def plant_version_before(engine: Engine) -> None:
    """Make the database one that an Airflow without FAB migrated, with something in it."""
    tables = reflect(engine)
    with engine.begin() as connection:
        for name in filter(TABLES_OF_USERS.match, tables.tables):
            connection.execute(text(f"DROP TABLE {name} CASCADE"))
        connection.execute(insert(tables.tables["variable"]).values(KEPT))


def reflect(engine: Engine) -> MetaData:
    tables = MetaData()
    tables.reflect(engine)
    return tables


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The machine's Chromium."""
    with open_browser() as browser:
        yield browser


def enter(page: Page, people: People, user: str) -> None:
    """Log in on Airflow's page."""
    page.goto("/")
    log_in(page, people.passwords[user], user)
    page.get_by_text("Stats").first.wait_for()


def trigger(page: Page) -> int:
    """Trigger the scenario on its DAG's page, and return the status of Airflow's answer."""
    page.goto("/dags/nominal")
    page.get_by_role("button", name="Trigger").first.click()
    return send_trigger_form(page, "nominal").status


def test_a_platform_of_the_version_before_keeps_its_data_and_its_file_of_passwords_goes(people: People) -> None:
    variables = reflect(people.engine).tables["variable"]
    with people.engine.connect() as connection:
        values = connection.execute(select(variables.c["key"], variables.c.val)).all()
    assert values == [(KEPT["key"], KEPT["val"])]
    assert not get_password_file(Path(people.environment["AIRFLOW_HOME"])).exists()


PAGES = (
    "/brokerproof/",
    "/brokerproof/metrics",
    "/brokerproof/scenarios/nominal",
    f"/brokerproof/runs/{RUN}",
    f"/brokerproof/runs/{RUN}/files/report.json",
    f"/brokerproof/runs/{RUN}/tables/publishes",
    "/brokerproof/dags/nominal",
    "/api/v2/dags/nominal",
    "/api/v2/dags/nominal/dagRuns",
)
# What starts, cancels, judges again or deletes, as (method, address, content).
DEEDS: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/api/v2/dags/nominal/dagRuns", {"dag_run_id": "deed", "logical_date": None}),
    ("PATCH", "/api/v2/dags/nominal?update_mask=is_paused", {"is_paused": False}),
    ("POST", "/api/v2/dags/nominal/clearTaskInstances", {"dag_run_id": "deed", "dry_run": True}),
    ("PATCH", "/api/v2/dags/nominal/dagRuns/deed?update_mask=state", {"state": "failed"}),
    ("DELETE", "/api/v2/dags/nominal/dagRuns/deed", None),
)
FOR_ADMINS = ("/api/v2/connections", "/api/v2/variables", "/api/v2/config", "/auth/fab/v1/users", "/auth/fab/v1/roles")


def test_a_stranger_gets_nothing_and_cannot_register(people: People) -> None:
    with httpx.Client(base_url=people.url, timeout=60, trust_env=False) as stranger:
        for path in (*PAGES, *FOR_ADMINS):
            assert stranger.get(path).status_code == 401, path
        for method, path, content in DEEDS:
            assert stranger.request(method, path, json=content).status_code == 401, path
        for path in ("/auth/users/list/", "/auth/roles/list/"):
            answer = stranger.get(path)
            assert (answer.status_code, "/auth/login/" in answer.headers["location"]) == (302, True), path
        for path in ("/auth/register/form", "/auth/registeruserdbview/form"):
            assert stranger.get(path).status_code == 404, path


def test_a_viewer_reads_everything_and_does_nothing(people: People) -> None:
    with people.log_in("viewer") as viewer:
        for path in PAGES:
            assert viewer.get(path).status_code == 200, path
        for method, path, content in DEEDS:
            assert viewer.request(method, path, json=content).status_code == 403, path
        for path in FOR_ADMINS:
            assert viewer.get(path).status_code == 403, path


def test_an_operator_does_everything_but_what_changes_the_platform(people: People) -> None:
    with people.log_in("operator") as operator:
        for method, path, content in DEEDS:
            assert operator.request(method, path, json=content).is_success, path
        for path in FOR_ADMINS:
            assert operator.get(path).status_code == 403, path


def test_an_admin_changes_the_platform(people: People) -> None:
    with people.log_in("admin") as admin:
        for path in FOR_ADMINS:
            # Airflow's setting expose_config hides its configuration from everybody.
            assert admin.get(path).status_code == 200 or path.endswith("/config"), path


def test_somebody_without_a_role_sees_no_run(people: People) -> None:
    person = {"username": "nobody", "first_name": "n", "last_name": "n", "email": "nobody@example.com"}
    with people.log_in("admin") as admin:
        password = secrets.token_urlsafe(12)
        made = {**person, "roles": [{"name": "Public"}], "password": password}
        assert admin.post("/auth/fab/v1/users", json=made).is_success
    nobody = People(people.url, people.environment, people.engine, {"nobody": password})
    with nobody.log_in("nobody") as client:
        assert "nominal" not in client.get("/brokerproof/").text
        assert "nominal" not in client.get("/brokerproof/metrics").text
        for path in PAGES[2:]:
            assert client.get(path).status_code == 403, path


def test_a_viewer_sees_reports_in_the_browser_and_cannot_trigger(people: People, browser: Browser) -> None:
    before = people.list_runs()
    with open_page(browser, people.url) as page:
        enter(page, people, "viewer")
        page.goto("/dags/nominal")
        page.get_by_role("link", name="Results").click()
        expect(page.frame_locator("iframe").get_by_role("region", name="nominal", exact=True)).to_be_visible()
        page.goto(f"/brokerproof/runs/{RUN}")
        expect(page.get_by_text("alice", exact=True)).to_be_visible()
        page.goto("/plugin/brokerproof")
        expect(page.frame_locator("iframe").get_by_role("heading", level=1)).to_be_visible()
        assert trigger(page) == 403
    assert people.list_runs() == before


def test_an_operator_triggers_in_the_browser_and_airflow_knows_who_it_was(people: People, browser: Browser) -> None:
    before = people.list_runs()
    with open_page(browser, people.url) as page:
        enter(page, people, "operator")
        assert trigger(page) == 200
    (run_id,) = people.list_runs().keys() - before.keys()
    assert people.list_runs()[run_id] == "operator"


def test_the_client_of_airflows_api_logs_in_with_a_password(people: People) -> None:
    client = AirflowClient(lambda: people.url, "operator", people.passwords["operator"])
    client.trigger_run("nominal", "nominal-by-client", {})
    assert client.read_state("nominal", "nominal-by-client") == "queued"
    assert people.list_runs()["nominal-by-client"] == "operator"


def test_wrong_passwords_of_a_name_are_limited_and_other_names_go_on(people: People) -> None:
    statuses = [people.ask_token("somebody", "wrong").status_code for _ in range(7)]
    assert statuses == [401] * 5 + [429] * 2
    assert people.ask_token("viewer", people.passwords["viewer"]).status_code == 201


def test_the_initialization_again_changes_the_password_and_ends_the_sessions_of_it(people: People) -> None:
    new = secrets.token_urlsafe(12)
    make_admin = (sys.executable, str(DEPLOY / "make_admin.py"))
    with httpx.Client(base_url=people.url, timeout=60, trust_env=False) as browser:
        form = browser.get("/auth/login/").text
        token = re.search(r'name="csrf_token" type="hidden" value="([^"]+)"', form)
        assert token is not None
        filled = {"username": "admin", "password": people.passwords["admin"], "csrf_token": token[1]}
        assert browser.post("/auth/login/", data=filled).status_code == 302
        assert browser.get("/auth/users/list/").status_code == 200
        people.execute(*make_admin, AIRFLOW_ADMIN_PASSWORD=people.passwords["admin"])
        assert browser.get("/auth/users/list/").status_code == 200
        people.execute(*make_admin, AIRFLOW_ADMIN_PASSWORD=new)
        assert browser.get("/auth/users/list/").status_code == 302
    assert people.ask_token("admin", people.passwords["admin"]).status_code == 401
    assert people.ask_token("admin", new).status_code == 201
    people.passwords["admin"] = new


def test_cleaning_removes_old_rows_and_keeps_young_ones_and_those_of_unfinished_runs(people: People) -> None:
    plant_dag_run(people.engine, "old", days=200, state="success")
    # A run of more than 90 days ago that is judged again: it waits, and its tasks of that time stay.
    plant_dag_run(people.engine, "again", days=100, state="queued")
    plant_dag_run(people.engine, "after_again", days=95, state="success")
    plant_dag_run(people.engine, "young", days=10, state="success")
    assert "Run again of nominal is not finished" in clean(people)
    assert {"old", "again", "after_again", "young"} & people.list_runs().keys() == {"again", "after_again", "young"}
    tasks = reflect(people.engine).tables["task_instance"]
    with people.engine.connect() as connection:
        assert connection.scalar(select(tasks.c.task_id).where(tasks.c.run_id == "again")) == "reserve"


def plant_dag_run(engine: Engine, run_id: str, *, days: int, state: str) -> None:
    """A DAG run of so many days ago, with one task that ended."""
    at = datetime.now(UTC) - timedelta(days=days)
    tables = reflect(engine).tables
    versions = tables["dag_version"]
    # Airflow has no start of a run that was cleared and waits.
    started = {"start_date": None if state == "queued" else at, "queued_at": at, "run_after": at}
    with engine.begin() as connection:
        version = connection.scalar(select(versions.c.id).where(versions.c.dag_id == "nominal"))
        run = {"dag_id": "nominal", "run_id": run_id, "run_type": "manual", "state": state, "clear_number": 0}
        connection.execute(insert(tables["dag_run"]).values(**run, **started))
        task = {"id": uuid.uuid4(), "task_id": "reserve", "dag_id": "nominal", "run_id": run_id, "map_index": -1}
        values = {"state": "success", "start_date": at, "try_number": 1, "max_tries": 0, "priority_weight": 1}
        place = {"pool": "default_pool", "pool_slots": 1, "queue": "default", "dag_version_id": version}
        connection.execute(insert(tables["task_instance"]).values(**task, **values, **place))


def clean(people: People) -> str:
    """Execute the task `clean_up` as Airflow does, which hides its database from the task, and return its log."""
    code = (
        "import logging; logging.basicConfig(level='INFO')\n"
        "from airflow.sdk.execution_time.supervisor import block_orm_access\n"
        "block_orm_access()\n"
        "from brokerproof.orchestration.dag_building.clean_up import CleanUpOperator\n"
        "CleanUpOperator(task_id='clean_up').execute({})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=people.environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "airflow-db-not-allowed" not in done.stdout + done.stderr
    return done.stdout + done.stderr
