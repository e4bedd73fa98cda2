"""The environment variables that configure the embedded Airflow."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from brokerproof.machine import slots
from brokerproof.orchestration.airflow_credentials import USER, AirflowCredentials
from brokerproof.orchestration.airflow_database import ASYNC_DATABASE_URL, build_database_environment
from brokerproof.settings import Settings

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
# With the defaults, Airflow gives up a task only five minutes after its executor was killed, or its scheduler while the
# task was queued. A living task sends a heartbeat every few seconds, and on a busy machine within half a minute.
_SHORTER_TIMEOUTS = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "90",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "60",
}


def build_airflow_environment(settings: Settings, port: int) -> dict[str, str]:
    """Return the environment of Airflow's processes; `port` is the API server's.

    The user's own AIRFLOW_CONN_ variables stay, and so do the AIRFLOW__ variables that are not set here.
    """
    credentials = AirflowCredentials(settings.airflow_home)
    credentials.make_missing()
    keys = credentials.read_keys()
    url = f"http://127.0.0.1:{port}"
    environment = dict(os.environ)
    # Without compiled modules, every process of Airflow spends 3 s on compiling them again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    # It is valid only together with the other variable of the database; build_database_environment decides about both.
    environment.pop(ASYNC_DATABASE_URL, None)
    environment.setdefault("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[8]"}))
    # A run waits between two steps until the scheduler wakes up.
    environment.setdefault("AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME", "0.5")
    # Three tasks of a run work at the same time and must not wait for each other. Campaigns need a few more.
    environment.setdefault("AIRFLOW__CORE__PARALLELISM", str(3 * slots.count_slots() + 4))
    return environment | {
        "AIRFLOW_HOME": str(settings.airflow_home),
        # Airflow runs in a directory of its own, where a relative path would lead elsewhere.
        **settings.to_environment(),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONPATH": settings.python_path(os.environ.get("PYTHONPATH")),
        "PYTHONUNBUFFERED": "1",
        "AIRFLOW__CORE__DAGS_FOLDER": str(settings.dags),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(settings.plugins),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        # The default looks the name up in DNS, which takes seconds on a machine without a network.
        "AIRFLOW__CORE__HOSTNAME_CALLABLE": "socket.gethostname",
        "AIRFLOW__CORE__AUTH_MANAGER": _AUTH_MANAGER,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(credentials.password_file),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__CORE__FERNET_KEY": keys["fernet_key"],
        "AIRFLOW__API__SECRET_KEY": keys["secret_key"],
        "AIRFLOW__API_AUTH__JWT_SECRET": keys["jwt_secret"],
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__WORKERS": "1",
        **build_database_environment(settings.airflow_home, os.environ),
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(settings.airflow_home / "logs"),
        **_LONGER_TIMEOUTS,
        **_SHORTER_TIMEOUTS,
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
    }
