"""The distribution of a system that Brokerproof does not know."""

from __future__ import annotations

import hashlib
import tarfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from brokerproof.errors import MachineError
from brokerproof.runtimes.process_runtime import ProcessRuntime
from brokerproof.systems.jvm.distribution import Distribution, verify_checksum
from brokerproof.systems.jvm.software import LocalSoftware, provide_software

SERVER = Distribution(
    system="server",
    version="1.0",
    group="org.example",
    artifact="server-bin",
    sha512="",
    directory="server-1.0",
    size_mb=1,
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BROKERPROOF_CACHE", str(tmp_path))
    return tmp_path


@dataclass(frozen=True, kw_only=True)
class ServerAtHand(Distribution):
    """Its archive does not come from the network."""

    archive: Path

    def _download(self, repository: Path) -> Path:
        return self.archive


def make_server_at_hand(tmp_path: Path) -> ServerAtHand:
    shipped = tmp_path / "elsewhere" / "conf" / "server.properties"
    shipped.parent.mkdir(parents=True)
    shipped.write_text("a=1\n")
    archive = tmp_path / "server-1.0-bin.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "elsewhere", "server-1.0")
    content = vars(SERVER) | {"sha512": hashlib.sha512(archive.read_bytes()).hexdigest()}
    return ServerAtHand(**content, archive=archive)


def test_a_distribution_is_fetched_verified_and_unpacked_once(cache: Path) -> None:
    server = make_server_at_hand(cache)
    said: list[str] = []
    for _ in range(2):
        server.fetch(said.append)
    assert said == ["fetching the distribution of server 1.0 (1 MB, once)"]
    assert server.read_shipped("server.properties") == "a=1\n"


def test_a_distribution_with_another_checksum_is_not_unpacked(cache: Path) -> None:
    server = replace(make_server_at_hand(cache), sha512="ab" * 64)
    with pytest.raises(MachineError, match="not the pinned release"):
        server.fetch()
    assert not server.home.exists()


def test_a_distribution_in_the_cache_is_not_fetched_again(cache: Path) -> None:
    shipped = cache / "server-1.0" / "conf" / "server.properties"
    shipped.parent.mkdir(parents=True)
    shipped.write_text("a=1\n")
    assert SERVER.examine().ok
    software = provide_software(SERVER, image="server:1.0", home_in_image="/server", runtime=ProcessRuntime(cache))
    assert software.read_shipped("server.properties") == "a=1\n"
    assert (software.image, software.classpath) == ("", f"{cache}/server-1.0/lib/*")


def test_nodes_use_the_class_data_of_their_own_role_and_version(cache: Path) -> None:
    software = LocalSoftware(SERVER)
    archive = software.find_archive("broker", 64)
    archive.parent.mkdir()
    archive.touch()
    assert archive.name.startswith("server-1.0-broker-")
    assert software.list_class_data_options("broker", 64)[0] == f"-XX:SharedArchiveFile={archive}"
    assert software.list_class_data_options("broker", 65) == ()
    assert software.list_class_data_options("controller", 64) == ()


def test_a_corrupt_download_is_reported_and_removed(tmp_path: Path) -> None:
    archive = tmp_path / "x.tar.gz"
    archive.write_bytes(b"half of it")
    with pytest.raises(MachineError, match="corrupt or not the pinned release: 10 bytes"):
        verify_checksum(archive, "ab" * 64)
    assert not archive.exists()


def test_a_whole_download_is_accepted(tmp_path: Path) -> None:
    archive = tmp_path / "x.tar.gz"
    archive.write_bytes(b"all of it")
    verify_checksum(archive, hashlib.sha512(b"all of it").hexdigest())
    assert archive.exists()
