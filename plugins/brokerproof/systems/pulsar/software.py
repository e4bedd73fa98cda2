"""Pulsar's programs for a node: the distribution unpacked on this machine, or the official image."""

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
# The distribution's directory in the official image.
_HOME = "/pulsar"


def name_image(version: str) -> str:
    """Return the official image of a version, by name and tag."""
    return _IMAGE.format(version=version)


class Software(Protocol):
    """The programs and shipped files that a node is started from."""

    @property
    def java(self) -> str:
        """The program that starts a JVM."""

    @property
    def classpath(self) -> str:
        """The class path: a wildcard for every jar."""

    @property
    def image(self) -> str:
        """The image that holds them; empty if they are on this machine."""

    def read_shipped(self, name: str) -> str:
        """Return the text of a file in conf/, as shipped."""

    def list_class_data_options(self, role: Role, heap_mb: int) -> tuple[str, ...]:
        """Return the JVM's options for the class data archive of a role whose nodes have this heap, if there is one."""


@dataclass(frozen=True)
class LocalSoftware:
    """The distribution in the cache, and the Java of the locked requirements."""

    distribution: Distribution
    home_of_java: Path

    @property
    def java(self) -> str:
        return str(self.home_of_java / "bin" / "java")

    @property
    def classpath(self) -> str:
        return self.distribution.classpath

    @property
    def image(self) -> str:
        return ""

    def read_shipped(self, name: str) -> str:
        return self.distribution.read_shipped(name)

    def list_class_data_options(self, role: Role, heap_mb: int) -> tuple[str, ...]:
        """Return the option for the role's archive, if there is one. A JVM with another heap size can use it too."""
        archive = self._find_archive(role, heap_mb)
        return (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()

    def learn(self, role: Role, heap_mb: int, pid: int) -> None:
        """Make the archive of a role from a running node, if the role has none yet."""
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
    # The function (image, path) -> text of the file at this path in the image.
    read: Callable[[str, str], str]

    @property
    def java(self) -> str:
        """The program that starts a JVM; it is on the image's PATH."""
        return "java"

    @property
    def classpath(self) -> str:
        return f"{_HOME}/lib/*"

    @property
    def image(self) -> str:
        return name_image(self.version)

    def read_shipped(self, name: str) -> str:
        if name not in self._shipped:
            self._shipped[name] = self.read(self.image, f"{_HOME}/conf/{name}")
        return self._shipped[name]

    @cached_property
    def _shipped(self) -> dict[str, str]:
        return {}

    def list_class_data_options(self, role: Role, heap_mb: int) -> tuple[str, ...]:
        """Return no options, because containers have no archive: it fits only one Java and one distribution."""
        return ()


def provide_software(version: str, runtime: Runtime) -> LocalSoftware | ImageSoftware:
    """Return the programs of a runtime's nodes: the official image, or the distribution, fetched if it is missing.

    Raises InputError for an unknown version, MachineError if it cannot be fetched.
    """
    if isinstance(runtime, RunsImages):
        return ImageSoftware(version, runtime.read_image_file)
    return LocalSoftware(provide_distribution(version), find_java_home())
