"""The web application of the pages, with stand-ins for Airflow's logins, permissions and database."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from airflow.api_fastapi.common.db.common import _get_session
from airflow.api_fastapi.core_api.security import get_user
from brokerproof.checks import load_cases
from brokerproof.orchestration.airflow_pages import report_app
from brokerproof.orchestration.dag_run import derive_run_id
from brokerproof.results.history import History, open_history
from builders import TOPOLOGIES, leave_judgement, make_run

SCENARIO = "kill_region"
Fetch = Callable[[str], httpx.Response]
# As it is before a fixture lets everybody in.
authorize = report_app._authorize


@pytest.fixture
def fetch(monkeypatch: pytest.MonkeyPatch, sqlite_history: History) -> Fetch:
    """Fetch a page as a user who may read every scenario."""
    monkeypatch.setenv("BROKERPROOF_DATABASE_URL", sqlite_history.database)
    monkeypatch.setattr(report_app, "_authorize", lambda scenario, user: None)
    monkeypatch.setattr(report_app, "_link_to_airflow", lambda session, place, page: ([], []))
    app = report_app.make_report_app()
    app.dependency_overrides = {get_user: lambda: None, _get_session: lambda: None}

    def get(path: str) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://brokerproof") as client:
                return await client.get(path)

        return asyncio.run(send())

    return get


def test_the_pages_start_and_change_nothing() -> None:
    methods = {method for route in report_app.make_report_app().routes for method in route.methods}  # type: ignore[attr-defined]
    assert methods == {"GET"}


class FakeAuthManager:
    """An auth manager whose users may read every DAG, and the runs of `allowed`."""

    def __init__(self, *allowed: str) -> None:
        self._allowed = allowed

    def is_authorized_dag(self, *, method: str, access_entity: Any, details: Any, user: Any) -> bool:
        return (method, access_entity.name) == ("GET", "RUN") and details.id in self._allowed

    def get_authorized_dag_ids(self, *, user: Any, method: str) -> set[str]:
        return {SCENARIO, "another"}


@pytest.mark.parametrize(("allowed", "status"), [((SCENARIO,), 200), (("another",), 403), ((), 403)])
def test_only_who_may_read_the_runs_of_a_scenario_sees_them_anywhere(
    fetch: Fetch,
    plant: Any,
    judgement: Any,
    sqlite_history: History,
    monkeypatch: pytest.MonkeyPatch,
    allowed: tuple[str, ...],
    status: int,
) -> None:
    sqlite_history.record(plant("r1", judged=judgement()))
    monkeypatch.setattr(report_app, "_authorize", authorize)
    monkeypatch.setattr(report_app, "get_auth_manager", lambda: FakeAuthManager(*allowed))
    monkeypatch.setattr(report_app.DagModel, "get_team_name", lambda dag_id: None)
    for path in (
        *("/runs/r1", "/runs/r1/files/report.json", "/runs/r1/tables/publishes", "/runs/r1/messages/p/1"),
        *(f"/scenarios/{SCENARIO}", f"/scenarios/{SCENARIO}/groups", f"/dags/{SCENARIO}", f"/dags/{SCENARIO}/runs/r1"),
        "/compare?a=r1&b=r1",
    ):
        # A message or a table that the run lacks is 404, for who may look.
        assert (fetch(path).status_code == 403) == (status == 403), path
    for path in ("/", "/metrics", "/compare"):
        assert (SCENARIO in fetch(path).text) == (status == 200), path


BUG = """\
title: A known bug
description: Reproduced.
topology: sync_active_passive
workload: {namespace: mytenant/eu}
bug: {issue: apache/pulsar#1, claim: Nothing <b>is lost</b>., hit: [4.0.6], mended: 4.0.7}
matrix: {version: {hit: {version: 4.0.6, expect: {verdict: failed}}, control: {}}}
"""


def test_the_track_record_has_what_the_runs_of_each_known_bug_came_to(
    fetch: Fetch, judgement: Any, sqlite_history: History, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "scenarios").mkdir()
    file = tmp_path / "scenarios" / f"{SCENARIO}.yaml"
    file.write_text(BUG)
    monkeypatch.setenv("BROKERPROOF_SCENARIOS", str(tmp_path / "scenarios"))
    monkeypatch.setattr(report_app, "get_auth_manager", lambda: FakeAuthManager(SCENARIO))
    monkeypatch.setattr(report_app.DagModel, "get_team_name", lambda dag_id: None)
    for run_id, verdict in (("r0", "failed"), ("r1", "passed")):
        ((_, _, case),) = load_cases(file, TOPOLOGIES, {"case": "hit"})
        run = make_run(tmp_path / run_id, file, case, run_id=run_id)
        leave_judgement(run, judgement(verdict))
        sqlite_history.record(run)
    page = fetch("/track-record").text
    assert "failed in 1 of 2; reached in 2 of 2 tries <strong>not as expected</strong>" in page
    assert "passed in 0 of 0; reached in 0 of 0 tries" in page
    assert 'href="./runs/r1"' in page
    assert 'href="https://github.com/apache/pulsar/issues/1"' in page
    assert "Nothing &lt;b&gt;is lost&lt;/b&gt;." in page
    monkeypatch.setattr(report_app, "get_auth_manager", lambda: FakeAuthManager("another"))
    assert "No scenario that you may read is about a known bug." in fetch("/track-record").text


@pytest.mark.parametrize("tries", [(1,), (1, 2), (9, 10), (1, 20, 21), (1, 3, 107)])
def test_the_page_of_a_dag_run_shows_its_newest_try(
    fetch: Fetch, plant: Any, judgement: Any, sqlite_history: History, tries: tuple[int, ...]
) -> None:
    others = ["kill_region-nightly-h74ccf3c5", "kill_region-nightly2", "kill_region-nightly-late-200"]
    newest = derive_run_id(SCENARIO, "nightly", max(tries))
    for run_id in [*others, *(derive_run_id(SCENARIO, "nightly", number) for number in tries)]:
        sqlite_history.record(plant(run_id, judged=judgement()))
    answer = fetch(f"/dags/{SCENARIO}/runs/nightly")
    assert answer.status_code == 200
    assert f"runs/{newest}/files/report.json" in answer.text


def test_the_page_of_a_dag_run_shows_the_try_that_is_asked_for(
    fetch: Fetch, plant: Any, judgement: Any, sqlite_history: History
) -> None:
    for number in (1, 2):
        sqlite_history.record(plant(derive_run_id(SCENARIO, "nightly", number), judged=judgement()))
    answer = fetch(f"/dags/{SCENARIO}/runs/nightly?try_number=1")
    assert f"runs/{SCENARIO}-nightly/files/report.json" in answer.text


def test_a_dag_run_without_a_recorded_try_is_not_found(fetch: Fetch) -> None:
    answer = fetch(f"/dags/{SCENARIO}/runs/nightly")
    assert (answer.status_code, "No run nightly is recorded" in answer.json()["detail"]) == (404, True)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("tables/nothing", "no run has a table `nothing`"),
        ("tables/publishes/nothing.parquet", "nothing.parquet"),
    ],
)
def test_what_a_run_does_not_have_is_not_found(
    fetch: Fetch, plant: Any, judgement: Any, sqlite_history: History, path: str, problem: str
) -> None:
    sqlite_history.record(plant("r1", judged=judgement()))
    answer = fetch(f"/runs/r1/{path}")
    assert answer.status_code == 404
    assert problem in answer.json()["detail"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["", "/files/report.json"])
def test_a_run_whose_directory_is_missing_is_not_found(
    fetch: Fetch, plant: Any, judgement: Any, sqlite_history: History, path: str
) -> None:
    run = plant("r1", judged=judgement())
    sqlite_history.record(run)
    shutil.rmtree(run.directory)
    answer = fetch(f"/runs/r1{path}")
    assert answer.status_code == 404
    assert run.directory in answer.json()["detail"]


def test_a_history_that_cannot_be_used_is_explained(fetch: Fetch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERPROOF_DATABASE_URL", "sqlite:////proc/nothing/history.db")
    monkeypatch.setattr(report_app, "open_recorded_history", open_history)
    answer = fetch("/runs/r1")
    assert answer.status_code == 503
    assert "the history in sqlite:////proc/nothing/history.db cannot be used" in answer.json()["detail"]


PAGES = ("", "/files/report.json", "/tables/publishes", "/tables/publishes/part-0.parquet")


@pytest.mark.parametrize("link", ["tables/publishes", "tables/publishes/part-0.parquet", "state", "run.json"])
def test_no_page_of_a_run_reads_through_a_link_inside_of_it(
    fetch: Fetch, plant: Any, judgement: Any, sqlite_history: History, tmp_path: Path, link: str
) -> None:
    run = plant("r1", judged=judgement())
    run.append("publishes", [{"run_id": "r1", "producer": "p0", "seq": 3}])
    (file,) = run.list_files("publishes")
    Path(run.table("publishes"), file).rename(Path(run.table("publishes"), "part-0.parquet"))
    sqlite_history.record(run)
    assert [fetch(f"/runs/r1{page}").status_code for page in PAGES] == [200] * len(PAGES)
    place = Path(run.directory, link)
    shutil.move(place, tmp_path / "secret")
    place.symlink_to(tmp_path / "secret")
    for page in PAGES:
        answer = fetch(f"/runs/r1{page}")
        assert (answer.status_code, "is a symbolic link inside a run" in answer.text) == (404, True), page


@pytest.mark.parametrize("name", ["report.html", "badge.svg", "junit.xml", "report.json"])
def test_a_file_about_a_run_is_saved_and_never_runs_with_airflows_origin(
    fetch: Fetch, plant: Any, judgement: Any, sqlite_history: History, name: str
) -> None:
    sqlite_history.record(plant("r1", judged=judgement()))
    headers = fetch(f"/runs/r1/files/{name}").headers
    assert headers["Content-Disposition"] == f"attachment; filename*=UTF-8''r1-{name}"
    assert headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_a_tables_file_with_a_strange_name_is_saved_under_it(
    fetch: Fetch, plant: Any, judgement: Any, sqlite_history: History
) -> None:
    run = plant("r1", judged=judgement())
    run.append("publishes", [{"run_id": "r1", "producer": "p0", "seq": 3}])
    (file,) = run.list_files("publishes")
    Path(run.table("publishes"), file).rename(Path(run.table("publishes"), 'a"; x="ü.html'))
    sqlite_history.record(run)
    answer = fetch("/runs/r1/tables/publishes/a%22%3B%20x%3D%22%C3%BC.html")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/vnd.apache.parquet"
    assert answer.headers["Content-Disposition"].endswith("r1-publishes-a%22%3B%20x%3D%22%C3%BC.html")
