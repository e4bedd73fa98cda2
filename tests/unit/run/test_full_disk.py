"""What a full disk comes to: one sentence, nothing half-written, and what was recorded before is kept.

The disk is a real one of 256 KiB, mounted in a mount namespace of the test's own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_FILL = """
import sys
from pathlib import Path
disk = Path(sys.argv[1])
from brokerproof.run.directory import Run
run = Run(str(disk))
from brokerproof.run.records import RunReleased, StepProblem, read_record, write_record
write_record(run, RunReleased(at=7))
try:
    with (disk / "filler").open("wb", buffering=0) as filler:
        while filler.write(bytes(4096)):
            pass
except OSError:
    pass
try:
    ACT
except Exception as error:
    print(type(error).__name__, error)
print(read_record(run, RunReleased))
print(sorted(str(path.relative_to(disk)) for path in disk.rglob("*") if path.is_file()))
"""


@pytest.fixture
def namespace() -> list[str]:
    command = ["unshare", "--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], check=False).returncode != 0:
        pytest.skip("this machine gives its users no mount namespaces")
    return command


def on_a_full_disk(namespace: list[str], disk: Path, act: str) -> list[str]:
    mount = 'mount -t tmpfs -o size=256k none "$1" && exec "$2" -c "$3" "$1"'
    program = _FILL.replace("ACT", act)
    ran = subprocess.run(
        [*namespace, "sh", "-c", mount, "sh", str(disk), sys.executable, program],
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.splitlines()


@pytest.mark.parametrize(
    ("act", "name"),
    [
        ('write_record(run, StepProblem(step="load", problem="x" * 10_000))', "state/step_problem-load.json"),
        ('run.append("observations", [{"run_id": "r", "source": "s", "metric": "m", "value": "v"}])', "part-"),
    ],
)
def test_what_cannot_be_recorded_is_reported_and_leaves_nothing_behind(
    namespace: list[str], tmp_path: Path, act: str, name: str
) -> None:
    said, kept, files = on_a_full_disk(namespace, tmp_path, act)
    assert said.startswith("MachineError ")
    assert name in said
    assert "cannot be written: No space left on device; free space" in said
    assert kept == "at=7"
    assert files == "['filler', 'state/run_released.json']"


def test_a_node_that_cannot_be_written_is_reported(namespace: list[str], tmp_path: Path) -> None:
    act = (
        "from brokerproof.runtimes.protocols import NodeSpec; "
        "from brokerproof.runtimes.process_runtime import ProcessRuntime; "
        "ProcessRuntime(disk / 'nodes').prepare(NodeSpec(name='bookie-1', role='bookie', region='eu', "
        "address='127.0.0.1', command=('true',), files={'conf/x': 'y' * 10_000}))"
    )
    said, *_ = on_a_full_disk(namespace, tmp_path, act)
    assert said.startswith("MachineError node bookie-1 cannot be written to ")
    assert "No space left on device; free the disk" in said
