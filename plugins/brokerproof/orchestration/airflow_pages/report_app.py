"""The web application that serves Brokerproof's pages in Airflow's UI, and decides who may read each page.

Every request, even for a style sheet, needs a login to Airflow. A user sees the runs of a scenario only if Airflow lets
the user read the runs of the scenario's DAG. The application checks both itself, because Airflow does not protect the
applications of plugins. It changes no data.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, get_user
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from fastapi import Depends, FastAPI, HTTPException, Query, Request, Response
from fastapi.exception_handlers import http_exception_handler
from fastapi.responses import FileResponse, HTMLResponse, StreamingResponse
from sqlalchemy import select
from sqlalchemy.orm import Session

from brokerproof.errors import BrokerproofError
from brokerproof.orchestration.dag_run import belongs_to, derive_run_id, find_newest_try
from brokerproof.reports.compare_page import render_choice, render_comparison, render_groups
from brokerproof.reports.exports import EXPORTS
from brokerproof.reports.last_run_metrics import render_metrics
from brokerproof.reports.messages.message_life import read_message_life
from brokerproof.reports.messages.message_view import render_message_page
from brokerproof.reports.overview_page import (
    FILTERS,
    render_campaign,
    render_campaigns,
    render_overview,
    render_track_record,
)
from brokerproof.reports.pages import STATIC, Page, find_plotly, make_verdict_css
from brokerproof.reports.run_page import open_table_file, read_raw_table, render_run_page, render_table
from brokerproof.reports.run_report import read_run_report
from brokerproof.results.campaigns import Campaign
from brokerproof.results.history import History, RunPlace, open_recorded_history
from brokerproof.results.history_database import HistoryError
from brokerproof.results.run_groups import GroupBy
from brokerproof.results.track_record import list_track_rows
from brokerproof.run.directory import Run
from brokerproof.settings import from_environment

# A page loads files only from this server, even if a template or a recorded text names others. Plotly needs inline
# styles.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; object-src 'none'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'self'"
)
# A file about a run is saved, not shown. If a browser shows it all the same, it runs without Airflow's origin.
_DOWNLOAD_POLICY = "sandbox; default-src 'none'; frame-ancestors 'none'"
_STATIC = {
    "report.css": "text/css",
    "charts.js": "text/javascript",
    "plotly.min.js": "text/javascript",
    "verdicts.css": "text/css",
}
# The id of the DAG of campaigns, whose runs start runs of other DAGs.
_CAMPAIGN = "campaign"

# (text, address) of each link.
Links = list[tuple[str, str]]


def make_report_app() -> FastAPI:
    """Return the application. FastAPI's pages about the API are off, because they would be open without a login."""
    app = FastAPI(
        title="Brokerproof", docs_url=None, redoc_url=None, openapi_url=None, dependencies=[Depends(get_user)]
    )

    @app.middleware("http")
    async def protect(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call_next(request)
        is_download = "Content-Disposition" in response.headers
        response.headers["Content-Security-Policy"] = _DOWNLOAD_POLICY if is_download else _POLICY
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "same-origin"
        return response

    @app.exception_handler(BrokerproofError)
    async def explain(request: Request, error: Exception) -> Response:
        # A run or a part of it is missing or damaged, or the history cannot be used.
        status = 503 if isinstance(error, HistoryError) else 404
        return await http_exception_handler(request, HTTPException(status, str(error)))

    app.get("/static/{name}")(_send_static)
    app.get("/")(_show_overview)
    app.get("/scenarios/{scenario}")(_show_scenario)
    app.get("/scenarios/{scenario}/groups")(_show_groups)
    app.get("/campaigns")(_list_campaigns)
    app.get("/campaigns/{stamp}")(_show_campaign)
    app.get("/runs/{run_id}")(_show_run)
    app.get("/runs/{run_id}/files/{name}")(_send_file)
    app.get("/runs/{run_id}/tables/{table}")(_show_table)
    app.get("/runs/{run_id}/tables/{table}/{name}")(_send_table_file)
    app.get("/runs/{run_id}/messages/{producer}/{seq}")(_show_message)
    app.get("/compare")(_compare)
    app.get("/track-record")(_show_track_record)
    app.get("/metrics")(_send_metrics)
    app.get("/dags/{dag_id}")(_show_scenario_of_dag)
    app.get("/dags/{dag_id}/runs/{dag_run_id}")(_show_run_of_dag)
    return app


def _send_static(name: str) -> Response:
    if name not in _STATIC:
        raise HTTPException(404, f"there is no file {name}")
    headers = {"Cache-Control": "private, max-age=3600"}
    if name == "verdicts.css":
        return Response(make_verdict_css(), media_type=_STATIC[name], headers=headers)
    file: Path = find_plotly() if name == "plotly.min.js" else STATIC / name
    return FileResponse(file, media_type=_STATIC[name], headers=headers)


def _show_overview(request: Request, user: GetUserDep) -> HTMLResponse:
    allowed = _list_readable_scenarios(user)
    with _open_history() as history:
        trends = [trend for trend in history.list_trends() if trend.scenario in allowed] if history else []
    chosen = {name: request.query_params.get(name, "") for name in FILTERS}
    return HTMLResponse(render_overview(trends, _page(request, here="overview"), chosen))


def _show_scenario(scenario: str, request: Request, user: GetUserDep) -> HTMLResponse:
    _authorize(scenario, user)
    with _open_history() as history:
        trends = history.list_trends(per_scenario=200, scenarios=[scenario]) if history else []
    return HTMLResponse(render_overview(trends, _page(request), {}, scenario=scenario))


def _show_groups(scenario: str, request: Request, user: GetUserDep, by: GroupBy = GroupBy.VERSION) -> HTMLResponse:
    _authorize(scenario, user)
    with _open_history() as history:
        try:
            groups = history.group([scenario], by) if history else []
        except BrokerproofError as error:
            raise HTTPException(409, str(error)) from None
    return HTMLResponse(render_groups(scenario, by, groups, _page(request, draws=False)))


def _show_scenario_of_dag(dag_id: str, request: Request, user: GetUserDep) -> HTMLResponse:
    return _list_campaigns(request, user) if dag_id == _CAMPAIGN else _show_scenario(dag_id, request, user)


def _list_campaigns(request: Request, user: GetUserDep) -> HTMLResponse:
    _authorize(_CAMPAIGN, user)
    return HTMLResponse(render_campaigns(_read_campaigns(user), _page(request, draws=False)))


def _show_campaign(stamp: str, request: Request, user: GetUserDep) -> HTMLResponse:
    _authorize(_CAMPAIGN, user)
    found = _read_campaigns(user, stamp)
    if not found:
        raise HTTPException(404, f"No run of a campaign {stamp} is recorded.")
    return HTMLResponse(render_campaign(found[0], _page(request, draws=False)))


def _read_campaigns(user: Any, stamp: str | None = None) -> list[Campaign]:
    """Return the campaigns with runs that the user may read. Each campaign has only these runs.

    If `stamp` is given, return only the campaign that was planned at this time.
    """
    allowed = _list_readable_scenarios(user)
    with _open_history() as history:
        found = history.list_campaigns(stamp=stamp) if history else []
    seen = [replace(one, runs=tuple(run for run in one.runs if run.scenario in allowed)) for one in found]
    return [one for one in seen if one.runs]


def _show_run(run_id: str, request: Request, user: GetUserDep, session: SessionDep) -> HTMLResponse:
    with _open_history() as history:
        place = history.find_run_place(run_id) if history else None
    return _render_run(place, run_id, request, user, session)


def _show_message(run_id: str, producer: str, seq: int, request: Request, user: GetUserDep) -> HTMLResponse:
    run = _find_run(run_id, user)
    life = read_message_life(run, producer, seq)
    return HTMLResponse(render_message_page(life, _page(request, draws=False)))


def _compare(request: Request, user: GetUserDep, a: str = "", b: str = "") -> HTMLResponse:
    """Show two runs side by side. If `a`, `b` or the history is missing, show a form that chooses two runs."""
    page = _page(request, draws=False)
    with _open_history() as history:
        if history is None or not a or not b:
            allowed = _list_readable_scenarios(user)
            trends = [one for one in history.list_trends() if one.scenario in allowed] if history else []
            return HTMLResponse(render_choice(trends, page, a))
        runs = [(name, history.find_run(name)) for name in (a, b)]
        for name, run in runs:
            if run is None:
                raise HTTPException(404, f"No run {name} is recorded.")
            _authorize(run.scenario, user)
        first, second = (run for _, run in runs if run is not None)
        try:
            return HTMLResponse(render_comparison(history.compare_two(first, second), page))
        except BrokerproofError as error:
            raise HTTPException(409, str(error)) from None


def _show_track_record(request: Request, user: GetUserDep) -> HTMLResponse:
    """Show the known bugs of the scenarios whose runs the user may read."""
    allowed, settings = _list_readable_scenarios(user), from_environment()
    files = {file.stem: file for file in settings.scenario_files() if file.stem in allowed}
    with _open_history() as history:
        rows = list_track_rows(files, settings.topologies, history)
    return HTMLResponse(render_track_record(rows, _page(request, draws=False)))


def _send_file(run_id: str, name: str, user: GetUserDep) -> Response:
    """Send a file about a run as a download. `name` is one of the file names in `EXPORTS`, such as `report.json`."""
    if name not in EXPORTS:
        raise HTTPException(404, f"There is no file {name}; there are {', '.join(EXPORTS)}.")
    run = _find_run(run_id, user)
    text = EXPORTS[name](run)
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(text, media_type=kind, headers=_name_download(f"{run_id}-{name}"))


def _show_table(run_id: str, table: str, request: Request, user: GetUserDep) -> HTMLResponse:
    run = _find_run(run_id, user)
    return HTMLResponse(render_table(read_raw_table(run, table), _page(request, draws=False)))


def _send_table_file(run_id: str, table: str, name: str, user: GetUserDep) -> Response:
    run = _find_run(run_id, user)
    blocks = open_table_file(run, table, name)
    headers = _name_download(f"{run_id}-{table}-{name}")
    return StreamingResponse(blocks, media_type="application/vnd.apache.parquet", headers=headers)


def _name_download(name: str) -> dict[str, str]:
    """Return the header for a file to save. The name may have a table's file's, which can have any characters."""
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}


def _send_metrics(user: GetUserDep) -> Response:
    """Send Prometheus metrics of the last run of each scenario that the user may read."""
    allowed = _list_readable_scenarios(user)
    with _open_history() as history:
        text = render_metrics(history, scenarios=allowed) if history else ""
    return Response(text, media_type="text/plain; version=0.0.4")


def _find_run(run_id: str, user: Any) -> Run:
    with _open_history() as history:
        place = history.find_run_place(run_id) if history else None
    if place is None:
        raise HTTPException(404, f"No run {run_id} is recorded.")
    _authorize(place.scenario, user)
    return _open_run(place)


def _open_run(place: RunPlace) -> Run:
    """Return a recorded run. Raises HTTPException if its directory was deleted, InputError if a link is inside it."""
    if place.deletion is not None:
        raise HTTPException(410, f"Run {place.run_id} is in the history only: {place.deletion}.")
    run = Run(place.run_dir)
    run.refuse_links()
    return run


def _show_run_of_dag(
    dag_id: str,
    dag_run_id: str,
    request: Request,
    user: GetUserDep,
    session: SessionDep,
    try_number: Annotated[int | None, Query()] = None,
) -> HTMLResponse:
    """Show the try `try_number` of a DAG run, by default the newest recorded one.

    For a DAG run of a campaign, show the list of campaigns.
    """
    _authorize(dag_id, user)
    if dag_id == _CAMPAIGN:
        return _list_campaigns(request, user)
    with _open_history() as history:
        if try_number is None:
            run_id = find_newest_try(history.list_run_ids(dag_id) if history else (), dag_id, dag_run_id)
        else:
            run_id = derive_run_id(dag_id, dag_run_id, try_number)
        place = history.find_run_place(run_id) if history and run_id else None
    return _render_run(place, dag_run_id, request, user, session)


def _render_run(place: RunPlace | None, name: str, request: Request, user: Any, session: Session) -> HTMLResponse:
    if place is None:
        raise HTTPException(404, f"No run {name} is recorded; a run is recorded when its task `record` has ended.")
    _authorize(place.scenario, user)
    report = read_run_report(_open_run(place))
    page = _page(request)
    files = [(f"As a file: {name}", f"{page.root}runs/{quote(place.run_id)}/files/{name}") for name in EXPORTS]
    compare = ("Compare with another run", f"{page.root}compare?a={quote(place.run_id)}")
    in_airflow, logs = _link_to_airflow(session, place, page)
    links = [compare, *files, *in_airflow]
    return HTMLResponse(render_run_page(report, page, links, logs, worse=place.worse, suspected=place.suspected))


def _link_to_airflow(session: Session, place: RunPlace, page: Page) -> tuple[Links, Links]:
    """Return two lists of links into Airflow: to the scenario's DAG and the DAG run, and to each task that has started.

    The tasks are in the order of their start. If Airflow no longer has the DAG run, the only link is the one to the
    DAG.
    """
    # In the URL, Airflow's `dags` is next to Brokerproof's root.
    dag = f"{page.root}../dags/{quote(place.scenario)}"
    pages = [("The scenario in Airflow", dag)]
    dag_run_ids = session.scalars(
        select(DagRun.run_id).where(DagRun.dag_id == place.scenario).order_by(DagRun.run_after.desc())
    )
    dag_run_id = next((one for one in dag_run_ids if belongs_to(place.run_id, place.scenario, one)), None)
    if dag_run_id is None:
        return pages, []
    tasks = session.scalars(
        select(TaskInstance.task_id)
        .where(TaskInstance.dag_id == place.scenario, TaskInstance.run_id == dag_run_id)
        .where(TaskInstance.start_date.is_not(None))
        .order_by(TaskInstance.start_date)
    )
    run = f"{dag}/runs/{quote(dag_run_id)}"
    return [*pages, ("The run in Airflow", run)], [(task, f"{run}/tasks/{quote(task)}") for task in tasks]


def _page(request: Request, here: str = "", *, draws: bool = True) -> Page:
    """Return the `Page` for a request. Its links are relative, so they work with every host name and proxy."""
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    return Page(root="../" * (path.count("/") - 1) or "./", here=here, draws=draws)


def _authorize(scenario: str, user: Any) -> None:
    """Raises HTTPException if the user may not read the runs of the scenario's DAG."""
    if not _may_read_runs(scenario, user):
        raise HTTPException(403, f"You may not read the runs of {scenario}.")


def _may_read_runs(scenario: str, user: Any) -> bool:
    return bool(
        get_auth_manager().is_authorized_dag(
            method="GET",
            access_entity=DagAccessEntity.RUN,
            details=DagDetails(id=scenario, team_name=DagModel.get_team_name(scenario)),
            user=user,
        )
    )


def _list_readable_scenarios(user: Any) -> set[str]:
    """Return the scenarios whose runs the user may read. The right to read a DAG alone does not include its runs."""
    readable = get_auth_manager().get_authorized_dag_ids(user=user, method="GET")
    return {scenario for scenario in readable if _may_read_runs(scenario, user)}


def _open_history() -> AbstractContextManager[History | None]:
    """Return a context manager that yields the history, or None if the history's file does not exist yet."""
    return open_recorded_history() or nullcontext()
