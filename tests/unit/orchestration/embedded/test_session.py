"""The processes of an embedded Airflow's session, also of one whose supervisor has died."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import psutil
from brokerproof.clock import wait_until
from brokerproof.machine.processes import read_start
from brokerproof.orchestration.embedded.session import AirflowSession


def test_what_a_supervisor_left_is_found_and_ended_by_the_process_that_started_it(tmp_path: Path) -> None:
    """Seen: the supervisor was reaped between two looks at its pid, and thirteen orphans were left."""
    pid_file = tmp_path / "pid"
    supervisor = subprocess.Popen(
        ["sh", "-c", f"sleep 60 & echo $! > {pid_file}; exec sleep 60"], start_new_session=True
    )
    wait_until(lambda: pid_file.exists() and pid_file.read_text(), timeout_s=10, what="the member")
    member = psutil.Process(int(pid_file.read_text()))
    session = AirflowSession(pid=supervisor.pid, created=read_start(supervisor.pid), port=0)
    # It is not waited for, so that it stays as a zombie.
    supervisor.send_signal(signal.SIGKILL)
    zombie = psutil.Process(supervisor.pid)
    wait_until(lambda: zombie.status() == psutil.STATUS_ZOMBIE, timeout_s=10, what="the supervisor to die")

    assert session.list_members() == [member]
    assert session.end_members()
    assert not member.is_running() or member.status() == psutil.STATUS_ZOMBIE
