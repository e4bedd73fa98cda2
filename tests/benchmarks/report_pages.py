"""How long the pages take: the overview over 10,000 runs, and the page of a run of 1,000,000 messages.

    PYTHONPATH=tests/installations python tests/benchmarks/report_pages.py [--airflow]

The history is made of the rows of one planted run, copied, as runs of the shipped scenarios; every message of the run
has an anomaly, so that its largest table is as long as it can be. What is timed is what the API server does: read and
render. With `--airflow` it is a real one that is asked over HTTP, with its login and its permissions.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
from brokerproof.orchestration.embedded.environment import USER
from brokerproof.reports.overview_page import render_overview
from brokerproof.reports.pages import Page
from brokerproof.reports.run_page import render_run_page
from brokerproof.reports.run_report import read_run_report
from brokerproof.results.history import open_history
from brokerproof.results.history_database import make_engine, parse_url
from brokerproof.results.history_schema import AnomalyCount, RecordedMeasurement, RecordedRun
from brokerproof.run.directory import Run
from brokerproof.run.tables import SCHEMAS
from installation import Installation
from planted_runs import plant_run
from sqlalchemy import insert, select
from sqlalchemy.orm import Session

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = sorted(file.stem for file in (ROOT / "dags" / "scenarios").glob("*.yaml"))
TIMES = 9


def measure(what: str, work: Callable[[], Any]) -> None:
    """Do it a few times, and print the median and the longest. The first time, which fills caches, does not count."""
    seconds = []
    work()
    for _ in range(TIMES):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    print(f"{what}: median {statistics.median(seconds) * 1000:.0f} ms, longest {max(seconds) * 1000:.0f} ms")


def fill_history(url: str, run: Run, count: int) -> None:
    """`count` runs of all SCENARIOS, each with the rows of `run`."""
    with open_history(url) as history:
        history.record(run)
    with Session(make_engine(parse_url(url))) as session, session.begin():
        one = session.scalars(select(RecordedRun)).one()
        columns = [column.key for column in RecordedRun.__mapper__.column_attrs if column.key != "id"]
        facts = {name: getattr(one, name) for name in columns}
        measured = [
            {name: getattr(row, name) for name in ("suite", "metric", "subject", "value", "unit", "minimum", "maximum")}
            for row in one.measurements
            for _ in range(10)
        ]
        start = datetime(2020, 1, 1, tzinfo=UTC)
        keys = range(one.id + 1, one.id + count)
        session.execute(
            insert(RecordedRun),
            [
                facts
                | {
                    "id": key,
                    "run_id": f"run-{key}",
                    "scenario": SCENARIOS[key % len(SCENARIOS)],
                    "started_at": start + timedelta(hours=key),
                }
                for key in keys
            ],
        )
        session.execute(insert(RecordedMeasurement), [row | {"run_key": key} for key in keys for row in measured])
        session.execute(
            insert(AnomalyCount),
            [{"run_key": key, "anomaly": "delivered_twice", "legal": True, "count": key % 50} for key in keys],
        )


def fill_anomalies(run: Run, count: int) -> None:
    """A table of `count` anomalies, as judging writes them."""
    schema = SCHEMAS["anomalies"]
    columns = {name: pa.nulls(count, schema.field(name).type) for name in schema.names}
    columns |= {
        "run_id": pa.array([run.run_id] * count),
        "anomaly": pa.array(["delivered_twice"] * count),
        "legal": pa.array([True] * count),
        "producer": pa.array(["p0"] * count),
        "seq": pa.array(range(count), pa.int64()),
    }
    pq.write_table(pa.table(columns, schema=schema), f"{run.table('anomalies')}/part-big.parquet")


def main() -> None:
    """Make the history and the run, and time both pages."""
    parser = argparse.ArgumentParser(description="Time the pages of reports.")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--anomalies", type=int, default=1_000_000)
    parser.add_argument("--airflow", action="store_true", help="ask a real Airflow for the pages too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        run = plant_run(
            Path(directory) / "sync_datacenter_loss-planted",
            ROOT / "dags" / "scenarios" / "sync_datacenter_loss.yaml",
            ROOT / "topologies",
            at=datetime(2026, 1, 1, tzinfo=UTC),
            lost=3,
        )
        url = f"sqlite:///{directory}/history.db"
        fill_history(url, run, options.runs)
        fill_anomalies(run, options.anomalies)

        def show_overview() -> None:
            with open_history(url) as history:
                render_overview(history.list_trends(), Page(), {})

        measure(f"overview over {options.runs:,} runs", show_overview)
        measure(
            f"page of a run with {options.anomalies:,} anomalies",
            lambda: render_run_page(read_run_report(Run(run.directory)), Page()),
        )
        if options.airflow:
            measure_airflow(Path(directory) / "home", url, run)


def measure_airflow(home: Path, url: str, run: Run) -> None:
    """Time both pages as a browser gets them from an Airflow that has the shipped scenarios as its DAGs."""
    home.mkdir()
    installation = Installation.lay_out(
        home,
        topologies=[ROOT / "topologies"],
        scenarios=(ROOT / "dags" / "scenarios").glob("*.yaml"),
        BROKERPROOF_DATABASE_URL=url,
        BROKERPROOF_LEASES=str(home / "leases"),
    )
    airflow = installation.airflow
    airflow.start()
    try:
        for name in SCENARIOS:
            installation.client().wait_for_dag(name)
        with httpx.Client(base_url=airflow.read_status().url, timeout=60) as http:
            answer = http.post("/auth/token", json={"username": USER, "password": airflow.read_password()})
            http.headers["Authorization"] = f"Bearer {answer.raise_for_status().json()['access_token']}"

            def get(path: str) -> str:
                return http.get(f"/brokerproof/{path}").raise_for_status().text

            shown = get("").count('class="scenario"')
            if shown != len(SCENARIOS):
                raise SystemExit(f"the overview shows {shown} scenarios instead of {len(SCENARIOS)}")
            measure("the overview, from Airflow", lambda: get(""))
            measure("the run, from Airflow", lambda: get(f"runs/{run.run_id}"))
    finally:
        airflow.stop()


if __name__ == "__main__":
    main()
