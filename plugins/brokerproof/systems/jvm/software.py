"""The programs of a node: a distribution unpacked on this machine, or an official image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from brokerproof.machine.java import find_java_home
from brokerproof.runtimes.protocols import RunsImages, Runtime
from brokerproof.systems.jvm import class_data
from brokerproof.systems.jvm.distribution import Distribution


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
        """Return the text of a file in conf/, as shipped."""

    def list_class_data_options(self, role: str, heap_mb: int) -> tuple[str, ...]:
        """Return the JVM options that use a role's class data archive, made with this heap; empty if there is none."""


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
        """Return the option that uses the archive made with this heap, if it exists. The JVM may have another heap."""
        archive = self.find_archive(role, heap_mb)
        return (f"-XX:SharedArchiveFile={archive}",) if archive.exists() else ()

    def learn(self, role: str, heap_mb: int, pid: int) -> None:
        """Make a role's class data archive from its running node `pid`, if the role has no archive yet."""
        archive = self.find_archive(role, heap_mb)
        if not archive.exists():
            class_data.dump(archive, java=Path(self.java), pid=pid)

    def find_archive(self, role: str, heap_mb: int) -> Path:
        """Return the path of a role's class data archive. The file may not exist yet."""
        name = f"{self.distribution.system}-{self.distribution.version}-{role}"
        return class_data.archive(name, java=Path(self.java), heap_mb=heap_mb)


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
