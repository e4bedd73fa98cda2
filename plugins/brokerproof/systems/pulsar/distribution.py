"""The official Pulsar server distribution: fetched once from Maven Central, verified, unpacked into a cache."""

from __future__ import annotations

import hashlib
import logging
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
from filelock import FileLock

from brokerproof.errors import InputError, MachineError
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.machine.finding import Finding
from brokerproof.machine.java import locate_cache

log = logging.getLogger(__name__)

# The archive's path in a Maven repository.
_ARCHIVE = "org/apache/pulsar/pulsar-server-distribution/{version}/pulsar-server-distribution-{version}-bin.tar.gz"

# {version: SHA-512 of `pulsar-server-distribution-<version>-bin.tar.gz`}. Only these versions can be used.
CHECKSUMS: Mapping[str, str] = {
    "4.0.8": "65b769b10696cdfebf7fc5bcdc95dd663702e27051e616c1a13cb100e9127952"
    "5be35352171befe7b0011176330aab29bd0a6c8a0f2f0646641af46d2e33cbd6",
}


@dataclass(frozen=True)
class Distribution:
    """An unpacked distribution in the directory `home`."""

    version: str
    home: Path

    def read_shipped(self, name: str) -> str:
        """Return the text of a file in conf/, as shipped."""
        return (self.home / "conf" / name).read_text(encoding="utf-8")

    @property
    def classpath(self) -> str:
        """The class path: a wildcard for every jar."""
        return str(self.home / "lib" / "*")


def is_cached(version: str) -> bool:
    """Return whether the cache holds the distribution of this version."""
    return (locate_cache() / f"apache-pulsar-{version}").is_dir()


def provide_distribution(version: str) -> Distribution:
    """Return the distribution of a version, fetched and unpacked if the cache lacks it.

    Raises InputError for a version without a pinned checksum. Raises MachineError if it cannot be fetched, has another
    checksum, or does not fit on the disk.
    """
    if version not in CHECKSUMS:
        raise InputError(
            f"no checksum of Pulsar {version} is pinned", field="version", remedy=suggest_name(version, CHECKSUMS)
        )
    cache = locate_cache()
    home = cache / f"apache-pulsar-{version}"
    if home.is_dir():
        return Distribution(version, home)
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / f"apache-pulsar-{version}.lock"):
        if not home.is_dir():
            archive = _fetch(version, cache / "repository")
            _unpack(archive, home)
            archive.unlink()
    return Distribution(version, home)


def examine(version: str) -> Finding:
    """Return whether the distribution of a version is in the cache or can be fetched."""
    name = f"pulsar {version}"
    if is_cached(version):
        return Finding(name=name, ok=True, found=f"in {locate_cache()}")
    from jgo.maven import MavenContext  # slow to import

    base = next(iter(MavenContext().remote_repos.values()))
    try:
        # It asks for the archive itself, because many mirrors answer 404 for a directory.
        answer = httpx.head(f"{base}/{_ARCHIVE.format(version=version)}", timeout=10, follow_redirects=True)
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


def verify_checksum(archive: Path, expected: str) -> None:
    """Raises MachineError if a file's SHA-512 is not `expected`, and removes the file so that it is fetched again."""
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, "sha512").hexdigest()
    if found != expected:
        size = archive.stat().st_size
        archive.unlink()
        raise MachineError(
            f"{archive.name} is corrupt or not the pinned release: {size} bytes, SHA-512 {found[:16]}…, "
            f"not {expected[:16]}…; it was removed, run again to fetch it anew"
        )


def _fetch(version: str, repository: Path) -> Path:
    from jgo.maven import MavenContext  # slow to import, and needed once

    repository.mkdir(parents=True, exist_ok=True)
    log.info("fetching the Pulsar %s distribution (240 MB, once)", version)
    try:
        component = MavenContext(repo_cache=repository).project("org.apache.pulsar", "pulsar-server-distribution")
        archive = Path(component.at_version(version).artifact(classifier="bin", packaging="tar.gz").resolve())
    except OSError as error:  # requests' exceptions are OSErrors too
        raise MachineError(_not_fetched(version, error)) from error
    except RuntimeError as error:
        # The next run would take a half-written file for the whole one.
        shutil.rmtree(repository, ignore_errors=True)
        raise MachineError(_not_fetched(version, error)) from error
    verify_checksum(archive, CHECKSUMS[version])
    return archive


def _not_fetched(version: str, error: Exception) -> str:
    return f"the Pulsar {version} distribution cannot be fetched from Maven Central: {error}"


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
