"""A real Docker engine for the tests in this directory, and the smallest image that they can do with."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from missing_parts import leave_out
from own_engine import find_reason_against, provide_engine

HERE = Path(__file__).parent
# One static program that is a shell and everything else that these tests start.
IMAGE = "brokerproof-tests/busybox:1"
SHIPPED = b"as shipped\n"


@pytest.fixture(scope="session")
def client() -> Iterator[docker.APIClient]:
    """The engine."""
    if reason := find_reason_against():
        leave_out(reason)
    with provide_engine() as host, pytest.MonkeyPatch.context() as environment:
        environment.setenv("DOCKER_HOST", host)
        yield docker.from_env().api


@pytest.fixture(scope="session")
def image(client: docker.APIClient) -> str:
    """The smallest image, in the engine of the session."""
    return make_image(client)


def make_image(client: docker.APIClient) -> str:
    """An image with a user of its own, as the official ones have."""
    busybox = shutil.which("busybox")
    if busybox is None or b"statically" not in subprocess.run(["file", "-L", busybox], capture_output=True).stdout:
        leave_out("no static busybox: install busybox-static and file")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(str(busybox), "bin/busybox")
        for name in ("sh", "sleep", "cat", "cp", "true", "nc", "id", "test", "mkdir", "httpd"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        shipped = tarfile.TarInfo("etc/shipped")
        shipped.size = len(SHIPPED)
        tar.addfile(shipped, io.BytesIO(SHIPPED))
    repository, tag = IMAGE.split(":")
    client.import_image_from_data(buffer.getvalue(), repository, tag, changes=["USER 10000", "ENV PATH=/bin"])
    return IMAGE
