"""The table of calls of docs/team.md, which test_reference_pages.py compares with the page."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from builders import ROOT
from engine_calls import fill_table

PAGE = (ROOT / "docs" / "team.md").read_text(encoding="utf-8")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The files that the table is made from, to be changed."""
    (tmp_path / "deploy").mkdir()
    shutil.copytree(ROOT / "deploy" / "engine", tmp_path / "deploy" / "engine")
    shutil.copy(ROOT / "docker-compose.yaml", tmp_path)
    return tmp_path


def change(file: Path, written: str, instead: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert written in text
    file.write_text(text.replace(written, instead, 1), encoding="utf-8")


def test_each_allowed_call_is_in_the_table_with_its_service_and_purpose() -> None:
    assert "| scheduler | `DELETE /{networks,volumes}/NAME` | " in PAGE
    assert "| scheduler | `POST /containers/NAME/{start,wait,stop,kill,pause,unpause}` | " in PAGE
    assert "| scheduler | `POST /images/create` | Fetch the image from a registry |" in PAGE
    assert "| prometheus | `GET, HEAD /_ping` | " in PAGE
    proxy = (ROOT / "deploy" / "engine" / "haproxy.cfg").read_text(encoding="utf-8")
    rows = [line for line in PAGE.splitlines() if line.startswith(("| scheduler | `", "| prometheus | `"))]
    assert len(rows) == proxy.count("\n    http-request allow ")


def test_a_rule_or_a_service_that_changes_changes_the_table(home: Path) -> None:
    assert fill_table(PAGE, home) == PAGE
    change(home / "deploy" / "engine" / "haproxy.cfg", "(start|wait|", "(start|restart|wait|")
    assert "/containers/NAME/{start,restart,wait," in fill_table(PAGE, home)
    change(home / "docker-compose.yaml", "      - discovery:/run/discovery\n    labels", "    labels")
    assert "| prometheus | " not in fill_table(PAGE, home)


def test_a_rule_without_a_comment_or_a_plain_call_is_refused(home: Path) -> None:
    proxy = home / "deploy" / "engine" / "haproxy.cfg"
    change(proxy, "    # Whether the engine answers.\n", "")
    with pytest.raises(ValueError, match=r"haproxy\.cfg allows without a comment or a call: .*_ping"):
        fill_table(PAGE, home)
    change(proxy, "    http-request deny", "    # All.\n    http-request allow if TRUE\n    http-request deny")
    with pytest.raises(ValueError, match=r"allows without a comment or a call: http-request allow if TRUE$"):
        fill_table(PAGE, home)


def test_a_page_without_the_place_of_the_table_is_refused(home: Path) -> None:
    with pytest.raises(ValueError, match=r"docs/team\.md has no line <!-- "):
        fill_table("# Run Brokerproof for a team", home)
