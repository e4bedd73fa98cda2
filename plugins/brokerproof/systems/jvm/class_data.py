"""Class data archives: saved data about the classes of a JVM, with which later JVMs of the same role start faster.

Java calls this application class data sharing (JEP 310, and `VM.cds static_dump` of jcmd). An archive belongs to one
Java and one distribution. A JVM that cannot use its archive starts without it.
"""

from __future__ import annotations

import hashlib
import logging
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from brokerproof.errors import NodeError
from brokerproof.machine.files import stage_file
from brokerproof.machine.java import locate_cache

log = logging.getLogger(__name__)

_DUMP_TIMEOUT_S = 120.0


def archive(name: str, *, java: Path, heap_mb: int) -> Path:
    """Return the path of the class data archive for this name, Java and heap. The file may not exist yet.

    `name` holds the system, its version and the node's role.
    """
    identity = f"{java.resolve()}|{(java.parents[1] / 'release').read_text(encoding='utf-8')}|{heap_mb}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return locate_cache() / "class-data" / f"{name}-{digest}.jsa"


def dump(path: Path, *, java: Path, pid: int, timeout_s: float = _DUMP_TIMEOUT_S) -> bool:
    """Write the class data archive `path` from the running JVM `pid`, which keeps running.

    Returns whether the archive was written. If Java fails, the reason is only logged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with stage_file(path) as unfinished:
            # Java writes a list of classes next to the archive, and leaves it there if it fails.
            with _removed_in_the_end(unfinished.with_name(f"{unfinished.name}.classlist")):
                result = subprocess.run(
                    [java.parent / "jcmd", str(pid), "VM.cds", "static_dump", str(unfinished)],
                    capture_output=True,
                    timeout=timeout_s,
                    check=False,
                )
            if result.returncode != 0 or not unfinished.exists():
                raise NodeError(result.stdout.decode(errors="replace").strip())
    except (NodeError, subprocess.TimeoutExpired) as error:
        log.warning("Java kept no class data in %s: %s", path, error)
        return False
    return True


@contextmanager
def _removed_in_the_end(path: Path) -> Iterator[None]:
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
