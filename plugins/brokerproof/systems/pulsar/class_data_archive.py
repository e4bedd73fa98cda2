"""Class data archives: they keep what a JVM learned about its classes, so that the next one of its role starts faster.

Java's application class data sharing (JEP 310, and `VM.cds static_dump` of jcmd). An archive belongs to one Java and
one distribution; a JVM that finds it unfit starts without it.
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


def archive(role: str, *, java: Path, version: str, heap_mb: int) -> Path:
    """Where the archive of a role is, or would be."""
    identity = f"{java.resolve()}|{(java.parents[1] / 'release').read_text(encoding='utf-8')}|{heap_mb}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return locate_cache() / "class-data" / f"pulsar-{version}-{role}-{digest}.jsa"


def dump(path: Path, *, java: Path, pid: int, timeout_s: float = _DUMP_TIMEOUT_S) -> bool:
    """Make an archive from a running node, which goes on as it was. Returns whether it worked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with stage_file(path) as unfinished:
            # Java lists the classes beside the archive, and leaves the list where it fails.
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
