"""A Docker engine for the tests: the machine's, or one of their own that leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from brokerproof.clock import wait_until
from filelock import FileLock

_PROGRAMS = ("dockerd", "containerd", "iptables-save", "iptables-restore", "ip")
_START_TIMEOUT_S = 60.0
_BRIDGE = "docker0"


def find_reason_against() -> str | None:
    """Why there is no engine and none can be started here, None where there is one or it can be."""
    if _answers(os.environ.get("DOCKER_HOST")):
        return None
    reason = find_reason_against_own()
    return f"no Docker engine answers, and {reason}" if reason else None


def find_reason_against_own() -> str | None:
    """Why no engine can be started here, None where it can."""
    if missing := [name for name in _PROGRAMS if shutil.which(name) is None]:
        return f"to start one this machine lacks {', '.join(missing)}"
    return None if os.geteuid() == 0 else "only root can start one"


@contextmanager
def provide_engine() -> Iterator[str]:
    """Where an engine listens, as DOCKER_HOST says it."""
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if _answers(host):
        yield host
        return
    with run_own_engine() as engine:
        yield engine.host


@contextmanager
def run_own_engine() -> Iterator[OwnEngine]:
    """An engine in a directory of its own."""
    made = tempfile.TemporaryDirectory(prefix="brokerproof-engine-", ignore_cleanup_errors=True)
    # Engines of two processes would each restore the rules that they found. One process may have a second engine.
    alone = FileLock(Path(tempfile.gettempdir()) / "brokerproof-engine-of-tests.lock", is_singleton=True)
    with alone, made as directory, _keep_firewall():
        engine = OwnEngine(Path(directory))
        engine.start()
        try:
            yield engine
        finally:
            engine.end()


class OwnEngine:
    """A process of Docker's engine, with everything that it writes in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory, self.host = directory, f"unix://{directory}/docker.sock"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        here = self._directory
        places = ("--data-root", here / "data", "--exec-root", here / "exec", "--pidfile", here / "pid")
        with (here / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["dockerd", *map(str, places), "-H", self.host], stdout=log, stderr=log, start_new_session=True
            )
        process = self._process
        wait_until(
            lambda: _answers(self.host) or process.poll() is not None,
            timeout_s=_START_TIMEOUT_S,
            what="Docker's engine to answer",
        )
        if process.poll() is not None:
            raise RuntimeError(f"Docker's engine did not start:\n{(here / 'log').read_text()[-2000:]}")

    def kill(self) -> None:
        """End it and its containerd at once, as when a machine loses them; its containers go on."""
        assert self._process is not None
        own = [self._process.pid, *(child.pid for child in psutil.Process(self._process.pid).children())]
        for pid in own:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        (self._directory / "pid").unlink(missing_ok=True)
        shutil.rmtree(self._directory / "exec" / "containerd", ignore_errors=True)

    def end(self) -> None:
        """Ask it to end, which ends its containers too, and leave nothing of those that it lost."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(timeout=60)
        here = str(self._directory)
        for process in psutil.process_iter(["cmdline"]):
            if any(here in part for part in process.info["cmdline"] or ()):
                for one in (*process.children(recursive=True), process):
                    with suppress(psutil.NoSuchProcess):
                        one.kill()
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in sorted((one for one in mounts if one.startswith(here)), reverse=True):
            subprocess.run(["umount", "--lazy", mount], capture_output=True, check=False)


@contextmanager
def _keep_firewall() -> Iterator[None]:
    """The engine leaves its rules and its bridge where they are."""
    had_bridge = Path("/sys/class/net", _BRIDGE).exists()
    before = subprocess.run(["iptables-save"], capture_output=True, check=True).stdout
    forwards = Path("/proc/sys/net/ipv4/ip_forward")
    forwarding = forwards.read_text()
    try:
        yield
    finally:
        subprocess.run(["iptables-restore"], input=before, check=True)
        forwards.write_text(forwarding)
        if not had_bridge:
            subprocess.run(["ip", "link", "delete", _BRIDGE], capture_output=True, check=False)


def _answers(host: str | None) -> bool:
    environment = {**os.environ, **({"DOCKER_HOST": host} if host else {})}
    if shutil.which("docker", path=environment.get("PATH")) is None:
        return False
    return subprocess.run(["docker", "info"], env=environment, capture_output=True, check=False).returncode == 0
