from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest
from brokerproof.doctor import examine_machine
from brokerproof.machine.finding import Finding
from brokerproof.settings import from_environment
from jgo.maven import MavenContext

ARCHIVE = "/org/apache/pulsar/pulsar-server-distribution/4.0.8/pulsar-server-distribution-4.0.8-bin.tar.gz"


def list_findings() -> dict[str, bool]:
    return {finding.name: finding.ok for finding in examine_machine(from_environment())}


def find_distribution() -> Finding:
    (finding,) = [one for one in examine_machine(from_environment()) if one.name == "pulsar 4.0.8"]
    return finding


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """A mirror of Maven without pages of directories. The set holds the paths of its files."""
    files: set[str] = set()

    class Mirror(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200 if self.path in files else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("BROKERPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("jgo.maven.MavenContext", lambda: MavenContext(remote_repos={"mirror": url}))
    yield files
    server.shutdown()
    thread.join()
    server.server_close()


def test_installed_things_are_found(scenarios: Path) -> None:
    found = list_findings()
    assert found["python"]
    assert found["python packages"]
    assert found["java"]


def find_files() -> Finding:
    (finding,) = [one for one in examine_machine(from_environment()) if one.name == "scenarios, topologies, suites"]
    return finding


def test_the_users_files_are_counted_with_the_shipped_ones(scenarios: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topologies = len(from_environment().topologies.list_files())
    assert (find_files().ok, find_files().found) == (True, f"1, {topologies}, 5")
    monkeypatch.setenv("BROKERPROOF_TOPOLOGIES", f"{scenarios}:")
    assert find_files().found == f"1, {topologies + 1}, 5"


def test_a_broken_suite_of_a_user_has_a_remedy(
    tmp_path: Path, scenarios: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "mine.json").write_text('{"name": "mine", "expectations": []}')
    monkeypatch.setenv("BROKERPROOF_EXPECTATIONS", f"{tmp_path}/mine:")
    found = find_files()
    assert (found.ok, found.found, found.remedy) == (
        False,
        f"{tmp_path}/mine/mine.json: holds no expectation",
        "write one for each rule",
    )


def test_what_is_wrong_with_the_users_files_has_a_remedy(
    scenarios: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKERPROOF_SCENARIOS", f"{tmp_path}/mistyped")
    assert not find_files().ok
    assert find_files().found.startswith("BROKERPROOF_SCENARIOS: the directory ")
    monkeypatch.setenv("BROKERPROOF_SCENARIOS", f"{scenarios}:")
    (scenarios / "sync_nominal.yaml").touch()
    assert f"{scenarios}/sync_nominal.yaml: has the same name as " in find_files().found
    assert find_files().remedy == "rename all but one"
    monkeypatch.setenv("BROKERPROOF_SCENARIOS", str(scenarios))
    monkeypatch.setenv("BROKERPROOF_EXPECTATIONS", str(scenarios))
    names = "completeness.json, uniqueness.json, ordering.json, placement.json and recovery.json"
    assert find_files().found == f"BROKERPROOF_EXPECTATIONS: no directory has {names}"


def test_a_missing_distribution_has_a_remedy(scenarios: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> httpx.Response:
        raise httpx.ConnectError("no route to host")

    monkeypatch.setenv("BROKERPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(httpx, "head", offline)
    finding = find_distribution()
    assert not finding.ok
    assert "no route to host" in finding.found
    assert str(tmp_path / "cache") in finding.remedy


def test_a_mirror_that_lists_no_directories_has_the_distribution(scenarios: Path, mirror: set[str]) -> None:
    mirror.add(ARCHIVE)
    finding = find_distribution()
    assert finding.ok
    assert finding.found == "not in the cache; the first run fetches it"


def test_a_mirror_without_the_archive_is_found_out(scenarios: Path, mirror: set[str]) -> None:
    mirror.add(ARCHIVE.rpartition("/")[0] + "/")
    finding = find_distribution()
    assert not finding.ok
    assert "answers 404" in finding.found
