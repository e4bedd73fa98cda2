from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from brokerproof.doctor import examine_machine
from brokerproof.settings import from_environment


def list_findings() -> dict[str, bool]:
    return {finding.name: finding.ok for finding in examine_machine(from_environment())}


def test_installed_things_are_found(scenarios: Path) -> None:
    found = list_findings()
    assert found["python"]
    assert found["python packages"]
    assert found["java"]


def test_a_missing_distribution_has_a_remedy(scenarios: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> httpx.Response:
        raise httpx.ConnectError("no route to host")

    monkeypatch.setenv("BROKERPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(httpx, "head", offline)
    (finding,) = [one for one in examine_machine(from_environment()) if one.name == "pulsar 4.0.8"]
    assert not finding.ok
    assert "no route to host" in finding.found
    assert str(tmp_path / "cache") in finding.remedy
