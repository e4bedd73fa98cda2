"""Fetches the container images of a run's nodes through Airflow's Docker provider.

The provider logs in at the registry that Airflow's connection `docker_default` names. If this connection is missing, or
has no host or no user name, the images are fetched without a login.
"""

from __future__ import annotations

import os

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException
from docker.errors import DockerException

from brokerproof.errors import MachineError
from brokerproof.run.directory import Run
from brokerproof.runtimes.engine import SOCKET, provide_image, translate_engine_errors
from brokerproof.runtimes.protocols import RunsImages
from brokerproof.runtimes.registry import load_runtime
from brokerproof.systems.abilities import HasImages, require
from brokerproof.systems.registry import find_system

CONNECTION = "docker_default"


def fetch_images(run: Run) -> None:
    """Fetch the images of the run's nodes, except those that the container engine already has.

    Does nothing if the run's nodes are not containers. Raises MachineError if the engine or the registry does not
    answer or refuses access, or if the registry lacks an image. Raises NodeError if the engine refuses to describe an
    image.
    """
    if not issubclass(load_runtime(run.scenario.runtime), RunsImages):
        return
    # This import is slow.
    from airflow.providers.docker.hooks.docker import DockerHook

    host = os.environ.get("DOCKER_HOST", f"unix://{SOCKET}")
    connection = CONNECTION if _has_credentials() else None
    try:
        client = DockerHook(docker_conn_id=connection, base_url=host, version="auto").get_conn()
    except (AirflowException, DockerException) as error:
        used = f"the engine at {host}" + (f" with Airflow's connection {connection}" if connection else "")
        raise MachineError(f"{used} cannot be used: {error}") from error
    with translate_engine_errors("the images cannot be fetched"):
        for image in require(find_system(run.topology), HasImages).list_images(run.scenario.version):
            provide_image(client, image)


def _has_credentials() -> bool:
    try:
        connection = Connection.get(CONNECTION)
    except AirflowNotFoundException:
        return False
    return bool(connection.host and connection.login)
