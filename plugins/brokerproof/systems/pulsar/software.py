"""Where Pulsar's programs are for a node: unpacked on this machine, or in the official image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from brokerproof.machine.java import find_java_home
from brokerproof.runtimes.protocols import RunsImages, Runtime
from brokerproof.systems.pulsar import class_data_archive
from brokerproof.systems.pulsar.distribution import Distribution, provide_distribution
from brokerproof.systems.pulsar.roles import Role

_IMAGE = "apachepulsar/pulsar:{version}"
# Where the official image holds the distribution.
_HOME = "/pulsar"


def name_image(version: str) -> str:
    """The official image of a version."""
    return _IMAGE.format(version=version)


class Software(Protocol):
    """What a node is started from."""

    @property
    def java(self) -> str:
        """The program that starts a JVM."""

    @property
    def classpath(self) -> str:
        """Every jar, by wildcard."""

    @property
    def image(self) -> str:
        """The image that holds all of it, empty where it is on this machine."""

    def read_shipped(self, name: str) -> str:
        """Read a file of conf/ as shipped."""

    def list_class_data_options(self, role: Role, heap_mb: int) -> tuple[str, ...]:
        """The options with which a JVM uses what others of its role learned about their classes."""


@dataclass(frozen=True)
class LocalSoftware:
    """The distribution in the cache, and the Java of the locked requirements."""

    distribution: Distribution
    home_of_java: Path

    @property
    def java(self) -> str:
        """The program that starts a JVM."""
        return str(self.home_of_java / "bin" / "java")

    @property
    def classpath(self) -> str:
        """Every jar, by wildcard."""
        return self.distribution.classpath

    @property
    def image(self) -> str:
        """None."""
        return ""

    def read_shipped(self, name: str) -> str:
        """Read a file of conf/ as shipped."""
        return self.distribution.read_shipped(name)

    def list_class_data_options(self, role: Role, heap_mb: int) -> tuple[str, ...]:
        """The archive of the role, if there is one. The class data fits every size of heap."""
        archive = self._find_archive(role, heap_mb)
        return (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()

    def learn(self, role: Role, heap_mb: int, pid: int) -> None:
        """Make the archive of a role that lacks one, from a node that runs."""
        archive = self._find_archive(role, heap_mb)
        if not archive.exists():
            class_data_archive.dump(archive, java=Path(self.java), pid=pid)

    def _find_archive(self, role: Role, heap_mb: int) -> Path:
        return class_data_archive.archive(
            role, java=Path(self.java), version=self.distribution.version, heap_mb=heap_mb
        )


@dataclass(frozen=True)
class ImageSoftware:
    """The official image of a version."""

    version: str
    # (image, path) → content.
    read: Callable[[str, str], str]

    @property
    def java(self) -> str:
        """Found in the image's PATH."""
        return "java"

    @property
    def classpath(self) -> str:
        """Every jar, by wildcard."""
        return f"{_HOME}/lib/*"

    @property
    def image(self) -> str:
        """The official image, by its tag."""
        return name_image(self.version)

    def read_shipped(self, name: str) -> str:
        """Read a file of conf/ as shipped."""
        if name not in self._shipped:
            self._shipped[name] = self.read(self.image, f"{_HOME}/conf/{name}")
        return self._shipped[name]

    @cached_property
    def _shipped(self) -> dict[str, str]:
        return {}

    def list_class_data_options(self, role: Role, heap_mb: int) -> tuple[str, ...]:
        """None: an archive fits one Java and one distribution only."""
        return ()


def provide_software(version: str, runtime: Runtime) -> LocalSoftware | ImageSoftware:
    """What the nodes of a runtime are started from. Fetches the distribution where this machine needs one and lacks it.

    Raises InputError for a version that is not known, MachineError where it cannot be fetched.
    """
    if isinstance(runtime, RunsImages):
        return ImageSoftware(version, runtime.read_image_file)
    return LocalSoftware(provide_distribution(version), find_java_home())
