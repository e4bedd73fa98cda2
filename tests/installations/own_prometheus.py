"""A real Prometheus for tests, on loopback, with a directory of its own."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

PROGRAM = shutil.which("prometheus")


class Prometheus:
    """Asks a Prometheus that runs."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def list_targets(self) -> list[dict[str, Any]]:
        """What it scrapes; nothing while it does not answer yet."""
        try:
            answer = self._client.get("/targets").raise_for_status()
        except httpx.HTTPError:
            return []
        found: list[dict[str, Any]] = answer.json()["data"]["activeTargets"]
        return found

    def query(self, expr: str) -> list[dict[str, Any]]:
        """The series of a query. Raises AssertionError where Prometheus refuses it."""
        answer = self._client.get("/query", params={"query": expr}).json()
        assert answer["status"] == "success", answer
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found


def _knows_fallback() -> bool:
    """Whether it refuses answers whose type is not given, unless a setting says what they are: version 3 does."""
    version = subprocess.run([str(PROGRAM), "--version"], capture_output=True, text=True, check=True)
    return not re.search(r"version 2\.", version.stdout + version.stderr)


@contextmanager
def run_prometheus(configuration: str, directory: Path) -> Iterator[Prometheus]:
    """Run it with a configuration; `PROGRAM` has to be there."""
    file = directory / "prometheus.yaml"
    file.write_text(
        configuration if _knows_fallback() else re.sub(r".*fallback_scrape_protocol.*\n", "", configuration)
    )
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    options = {"config.file": file, "storage.tsdb.path": directory / "data", "web.listen-address": f"127.0.0.1:{port}"}
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [str(PROGRAM), *(f"--{name}={value}" for name, value in options.items())], stdout=log, stderr=log
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}/api/v1", trust_env=False, timeout=60) as client:
            yield Prometheus(client)
    finally:
        process.terminate()
        process.wait(timeout=30)
