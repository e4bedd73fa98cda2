"""Java and Spark's Python processes end with a streaming consumer, even if it is killed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil
from brokerproof.clients.client_process import ClientProcess
from brokerproof.clock import wait_until
from builders import make_run

from .test_processes_of_clients import clients_of


def test_java_ends_with_a_killed_client(tmp_path: Path, endless: None) -> None:
    subscriptions = [{"name": "stream", "streaming": "by_batch"}]
    settings = {"workload.subscriptions": subscriptions, "overrides.system": "endless"}
    run = make_run(tmp_path / "run", "sync_nominal", settings, sealed=True)

    def has_java() -> bool:
        for each in clients_of(run):
            # The scripts that start Java may end before they are asked for their names.
            with suppress(psutil.NoSuchProcess):
                if each.name() == "java":
                    return True
        return False

    with ClientProcess("streaming_client", run, "consume-0", 0, 0) as process:
        # Java starts while the client waits for its clusters.
        wait_until(has_java, timeout_s=60, what="Java")
        process.kill()
        wait_until(lambda: not clients_of(run), timeout_s=30, what="the end of Java")
