"""The Java programs of a node: from a distribution unpacked on this machine, or from an official image.

A class data archive (Java's application class data sharing, JEP 310) holds data about a JVM's classes. With it, later
JVMs of the same role start faster. It fits only one Java and one distribution. A JVM that cannot use its archive starts
without it.
"""

from __future__ import annotations

import hashlib
import logging
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from brokerproof.errors import NodeError
from brokerproof.machine.files import remove_abandoned_files, stage_file
from brokerproof.machine.java import find_java_home, locate_cache
from brokerproof.runtimes.protocols import RunsImages, Runtime
from brokerproof.systems.jvm.distribution import Distribution

log = logging.getLogger(__name__)

_DUMP_TIMEOUT_S = 120.0
# By default, each JVM moves its archive to a random address, so that each has a copy of it in memory of its own.
_AT_ONE_ADDRESS = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")


def archive(name: str, *, java: Path, heap_mb: int) -> Path:
    """Return the path of the class data archive for a name, a Java and a heap size. The file may not exist yet.

    `name` holds the system, its version and the node's role. Environments whose Java comes from one download share the
    archive: Java accepts an archive of another path, if its modules have the same size and time.
    """
    modules = (java.parents[1] / "lib" / "modules").stat()
    release = (java.parents[1] / "release").read_text(encoding="utf-8")
    identity = f"{release}|{modules.st_size}|{modules.st_mtime_ns}|{heap_mb}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return locate_cache() / "class-data" / f"{name}-{digest}.jsa"


def dump(path: Path, *, java: Path, pid: int, timeout_s: float = _DUMP_TIMEOUT_S) -> bool:
    """Write the class data archive `path` from the running JVM `pid`, which keeps running.

    Returns whether the archive was written. If Java fails, the reason is only logged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned_files(path.parent)
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


class Software(Protocol):
    """The programs and shipped files that a node is started from."""

    @property
    def java(self) -> str:
        """The `java` program, as a path or as a name on the PATH."""

    @property
    def classpath(self) -> str:
        """The class path: one wildcard for all jars."""

    @property
    def image(self) -> str:
        """The image that holds the programs; empty if the programs are on this machine."""

    def read_shipped(self, name: str) -> str:
        """Return the text of a file in the distribution's folder conf/, as shipped."""

    def list_class_data_options(self, role: str, heap_mb: int) -> tuple[str, ...]:
        """Return the JVM options that use the class data archive for a role and heap; empty if there is no archive."""


@dataclass(frozen=True)
class LocalSoftware:
    """A distribution in the cache, and the Java that the locked requirements install."""

    distribution: Distribution

    @property
    def java(self) -> str:
        return str(find_java_home() / "bin" / "java")

    @property
    def classpath(self) -> str:
        return self.distribution.classpath

    @property
    def image(self) -> str:
        return ""

    def read_shipped(self, name: str) -> str:
        return self.distribution.read_shipped(name)

    def list_class_data_options(self, role: str, heap_mb: int) -> tuple[str, ...]:
        """Return the JVM options that use a role's class data archive; empty if there is no archive.

        `heap_mb` is the heap of the node from which the archive was made. The JVM that uses it may have another heap.
        """
        archive = self.find_archive(role, heap_mb)
        return (f"-XX:SharedArchiveFile={archive}", *_AT_ONE_ADDRESS) if archive.exists() else ()

    def learn(self, role: str, heap_mb: int, pid: int) -> bool:
        """Make a role's class data archive from its running node `pid`, unless the role has one.

        Returns whether Java was asked for an archive.
        """
        archive = self.find_archive(role, heap_mb)
        if archive.exists():
            return False
        dump(archive, java=Path(self.java), pid=pid)
        return True

    def find_archive(self, role: str, heap_mb: int) -> Path:
        """Return the path of a role's class data archive. The file may not exist yet."""
        name = f"{self.distribution.system}-{self.distribution.version}-{role}"
        return archive(name, java=Path(self.java), heap_mb=heap_mb)


@dataclass(frozen=True)
class ImageSoftware:
    image: str
    # The distribution's directory in the image.
    home: str
    # A function of (image, path) that returns the text of this file in the image.
    read: Callable[[str, str], str]

    @property
    def java(self) -> str:
        """The name of the `java` program, which is on the image's PATH."""
        return "java"

    @property
    def classpath(self) -> str:
        return f"{self.home}/lib/*"

    def read_shipped(self, name: str) -> str:
        if name not in self._shipped:
            self._shipped[name] = self.read(self.image, f"{self.home}/conf/{name}")
        return self._shipped[name]

    @cached_property
    def _shipped(self) -> dict[str, str]:
        return {}

    def list_class_data_options(self, role: str, heap_mb: int) -> tuple[str, ...]:
        """Return no options: an archive fits only one Java and one distribution, and none is made in containers."""
        return ()


def provide_software(
    distribution: Distribution, *, image: str, home_in_image: str, runtime: Runtime
) -> LocalSoftware | ImageSoftware:
    """Return the programs of a runtime's nodes: the image if the runtime runs images, else the distribution.

    The distribution is fetched if the cache lacks it. Raises MachineError if it cannot be fetched.
    """
    if isinstance(runtime, RunsImages):
        return ImageSoftware(image, home_in_image, runtime.read_image_file)
    distribution.fetch()
    return LocalSoftware(distribution)
