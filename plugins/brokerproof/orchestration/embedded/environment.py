"""The environment variables that configure the embedded Airflow, and the files with Airflow's password and keys."""

from __future__ import annotations

import base64
import json
import os
import secrets
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from brokerproof.machine import slots
from brokerproof.machine.files import PRIVATE, write_whole
from brokerproof.orchestration.embedded.airflow_supervisor import DATABASE_URL, make_own_url
from brokerproof.settings import Settings

USER = "admin"
ASYNC_DATABASE_URL = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC"
# The variable with the database's URL for the DAG `clean_up`, because Airflow hides its own variable from tasks.
CLEANED_DATABASE_URL = "AIRFLOW_DATABASE_URL"

_AUTH_MANAGER = "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"
# A cluster under load takes the machine's cores, so a task that Airflow starts meanwhile is slow. With the defaults,
# tasks failed (5 s for a request to the API) or began a minute late (30 s for reading the DAG file).
_LONGER_TIMEOUTS = {
    "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "180",
    "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "300",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "120",
    "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",
    "AIRFLOW__WORKERS__MAX_FAILED_HEARTBEATS": "10",
    "AIRFLOW__WORKERS__MISSING_DAG_RETRY_DELAY": "5",
}
# By default, Airflow gives up a task only five minutes after the task's executor was killed. It does the same for a
# queued task whose scheduler was killed. A living task sends a heartbeat at least every 30 s, even on a busy machine.
_SHORTER_TIMEOUTS = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "90",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "60",
}


def build_airflow_environment(settings: Settings, port: int) -> dict[str, str]:
    """Return the environment of Airflow's processes; `port` is the port of the API server.

    The user's own AIRFLOW_CONN_ variables stay. The user's AIRFLOW__ variables stay unless this function sets them.
    """
    read_password(settings.airflow_home)
    keys = _read_keys(settings.airflow_home)
    database = build_database_environment(settings.airflow_home, os.environ)
    url = f"http://127.0.0.1:{port}"
    environment = dict(os.environ)
    # With this variable, every process of Airflow would compile all modules again, which takes 3 s.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    # This variable is valid only together with DATABASE_URL; build_database_environment sets both.
    environment.pop(ASYNC_DATABASE_URL, None)
    environment.setdefault("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[8]"}))
    # A run waits between two steps until the scheduler wakes up.
    environment.setdefault("AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME", "0.5")
    # Three tasks of a run work at the same time and must not wait for each other. Campaigns need a few more.
    environment.setdefault("AIRFLOW__CORE__PARALLELISM", str(3 * slots.count_slots() + 4))
    return environment | {
        "AIRFLOW_HOME": str(settings.airflow_home),
        # Airflow's processes name themselves. Without this variable, a name would overwrite the marks by which they are
        # found.
        "SPT_NOENV": "1",
        # Airflow runs in a directory of its own, where a relative path would lead elsewhere.
        **settings.to_environment(),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONPATH": settings.python_path(os.environ.get("PYTHONPATH")),
        "PYTHONUNBUFFERED": "1",
        "AIRFLOW__CORE__DAGS_FOLDER": str(settings.dags),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(settings.plugins),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "brokerproof.orchestration.executor.EmbeddedExecutor",
        # The default looks the name up in DNS, which takes seconds on a machine without a network.
        "AIRFLOW__CORE__HOSTNAME_CALLABLE": "socket.gethostname",
        "AIRFLOW__CORE__AUTH_MANAGER": _AUTH_MANAGER,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(get_password_file(settings.airflow_home)),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__CORE__FERNET_KEY": keys["fernet_key"],
        "AIRFLOW__API__SECRET_KEY": keys["secret_key"],
        "AIRFLOW__API_AUTH__JWT_SECRET": keys["jwt_secret"],
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__WORKERS": "1",
        **database,
        CLEANED_DATABASE_URL: database[DATABASE_URL],
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(settings.airflow_home / "logs"),
        **_LONGER_TIMEOUTS,
        **_SHORTER_TIMEOUTS,
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
        # Parsing takes 3 s of a core. The supervisor makes Airflow parse the files soon after a scenario has changed.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "300",
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
    }


def build_database_environment(home: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that name Airflow's database.

    `given` are the user's variables. If they name no database, Airflow uses its own SQLite file. A PostgreSQL URL
    without a driver gets the driver psycopg. A URL with psycopg is used for asynchronous connections too, unless
    `given` names another one for them: without a second URL, Airflow would need a second driver, asyncpg. For any
    other URL, the second one is only set if `given` names it.
    """
    url = given.get(DATABASE_URL)
    if not url:
        return {DATABASE_URL: make_own_url(home)}
    scheme, _, rest = url.partition("://")
    # Heroku and others write `postgres`, which SQLAlchemy does not accept.
    if scheme in ("postgres", "postgresql"):
        url = f"postgresql+psycopg://{rest}"
    second = given.get(ASYNC_DATABASE_URL) or (url if url.startswith("postgresql+psycopg://") else "")
    return {DATABASE_URL: url} | ({ASYNC_DATABASE_URL: second} if second else {})


def get_password_file(home: Path) -> Path:
    return home / "passwords.json"


def read_password(home: Path) -> str:
    """Return the password of the user `admin`. The first start makes it, and later starts keep it."""
    return _read_or_make(get_password_file(home), lambda: {USER: secrets.token_urlsafe(18)})[USER]


def _read_keys(home: Path) -> Mapping[str, str]:
    return _read_or_make(
        home / "secrets.json",
        lambda: {
            "fernet_key": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "secret_key": secrets.token_urlsafe(32),
            "jwt_secret": secrets.token_urlsafe(64),
        },
    )


def _read_or_make(file: Path, make: Callable[[], Mapping[str, str]]) -> Mapping[str, str]:
    """Return the content of a JSON file that only its owner may read. A missing file is written from `make()` first."""
    if not file.exists():
        write_whole(file, json.dumps(make()), permissions=PRIVATE)
    return dict(json.loads(file.read_text()))
