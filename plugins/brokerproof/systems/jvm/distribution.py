"""The distribution of a system's server: fetched once from a Maven repository, verified, unpacked into a cache."""

from __future__ import annotations

import hashlib
import logging
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
from filelock import FileLock

from brokerproof.errors import MachineError
from brokerproof.machine.finding import Finding
from brokerproof.machine.java import locate_cache

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """One version of a system's server: the archive `ARTIFACT-VERSION-bin.tar.gz`, and its directory in the cache."""

    system: str
    version: str
    # The archive's coordinates in a Maven repository.
    group: str
    artifact: str
    sha512: str
    # The archive's one directory, with conf/ and lib/ in it.
    directory: str
    size_mb: int

    @property
    def home(self) -> Path:
        """The directory that the archive is unpacked to."""
        return locate_cache() / self.directory

    @property
    def classpath(self) -> str:
        """The class path: one wildcard for all jars."""
        return str(self.home / "lib" / "*")

    def read_shipped(self, name: str) -> str:
        """Return the text of a file in the distribution's folder conf/, as shipped."""
        return (self.home / "conf" / name).read_text(encoding="utf-8")

    def fetch(self, say: Callable[[str], None] = log.info) -> None:
        """Fetch and unpack the archive, unless the cache has it. `say` is called with a sentence before the fetch.

        Raises MachineError if the archive cannot be fetched, has another checksum, or does not fit on the disk.
        """
        home = self.home
        if home.is_dir():
            return
        home.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(home.with_name(f"{home.name}.lock")):
            if not home.is_dir():
                say(f"fetching the distribution of {self.system} {self.version} ({self.size_mb} MB, once)")
                archive = self._download(home.parent / "repository")
                verify_checksum(archive, self.sha512)
                _unpack(archive, home)
                archive.unlink()

    def examine(self) -> Finding:
        """Return a finding: whether the distribution is in the cache, or can be fetched."""
        name = f"{self.system} {self.version}"
        if self.home.is_dir():
            return Finding(name=name, ok=True, found=f"in {locate_cache()}")
        from jgo.maven import MavenContext  # slow to import

        base = next(iter(MavenContext().remote_repos.values()))
        folder = f"{base}/{self.group.replace('.', '/')}/{self.artifact}/{self.version}"
        try:
            # The request is for the archive itself, because many mirrors answer 404 for a directory.
            url = f"{folder}/{self.artifact}-{self.version}-bin.tar.gz"
            answer = httpx.head(url, timeout=10, follow_redirects=True)
            if answer.status_code < 400:
                return Finding(name=name, ok=True, found="not in the cache; the first run fetches it")
            found = f"not in the cache, and Maven Central answers {answer.status_code}"
        except httpx.HTTPError as error:
            found = f"not in the cache, and Maven Central cannot be reached: {error}"
        return Finding(
            name=name,
            ok=False,
            found=found,
            remedy=f"connect to the network once, or copy the cache of another machine to {locate_cache()}",
        )

    def _download(self, repository: Path) -> Path:
        from jgo.maven import MavenContext  # slow to import, and needed once

        repository.mkdir(parents=True, exist_ok=True)
        try:
            component = MavenContext(repo_cache=repository).project(self.group, self.artifact).at_version(self.version)
            return Path(component.artifact(classifier="bin", packaging="tar.gz").resolve())
        except (OSError, RuntimeError) as error:  # requests' exceptions are OSErrors too
            if isinstance(error, RuntimeError):
                # The next run would use a half-written file as if it were complete.
                shutil.rmtree(repository, ignore_errors=True)
            raise MachineError(
                f"the distribution of {self.system} {self.version} cannot be fetched from Maven Central: {error}"
            ) from error


def verify_checksum(archive: Path, expected: str) -> None:
    """Check an archive's SHA-512. If it is not `expected`, remove the archive and raise MachineError.

    The next run fetches the removed archive again.
    """
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, "sha512").hexdigest()
    if found != expected:
        size = archive.stat().st_size
        archive.unlink()
        raise MachineError(
            f"{archive.name} is corrupt or not the pinned release: {size} bytes, SHA-512 {found[:16]}…, "
            f"not {expected[:16]}…; it was removed, run again to fetch it anew"
        )


def _unpack(archive: Path, home: Path) -> None:
    log.info("unpacking %s", archive.name)
    temporary = home.with_name(home.name + ".unpacking")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with tarfile.open(archive) as tar:
            # Python before 3.11.4 has no filters. The checksum is then the only protection.
            tar.extraction_filter = getattr(tarfile, "data_filter", None)
            tar.extractall(temporary)
        (temporary / home.name).rename(home)
    except OSError as error:
        raise MachineError(
            f"{archive.name} cannot be unpacked into {home.parent}: {error.strerror}; free the disk"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
