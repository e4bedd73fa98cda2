from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from builders import ROOT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("Makefile", "requirements.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Within another make it would print the directories that it enters and leaves.
    return subprocess.run(
        ["make", "--no-print-directory", *arguments], cwd=checkout, capture_output=True, text=True, check=False
    )


def pretend_setup(checkout: Path) -> None:
    """Make the stamp of `make setup`, whose name is a checksum of the installed requirements."""
    sums = subprocess.run(
        "cat requirements.txt pyproject.toml | cksum",
        shell=True,
        cwd=checkout,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / f".installed-{sums.split()[0]}").touch()


def test_a_second_setup_does_nothing(checkout: Path) -> None:
    pretend_setup(checkout)
    done = make(checkout, "setup", "PYTHON=false")
    assert done.returncode == 0
    assert "Nothing to be done" in done.stdout


def test_setup_after_the_requirements_changed_does_something(checkout: Path) -> None:
    pretend_setup(checkout)
    with (checkout / "requirements.txt").open("a") as file:
        file.write("# changed\n")
    assert make(checkout, "setup", "PYTHON=false").returncode != 0


def test_setup_names_a_python_that_is_too_old(checkout: Path) -> None:
    done = make(checkout, "setup", "PYTHON=false")
    assert done.returncode != 0
    assert "needs Python 3.11, 3.12 or 3.13, and `false` is not one of them" in done.stderr


def test_the_makefile_names_no_host() -> None:
    assert "://" not in (ROOT / "Makefile").read_text()


def test_the_audit_leaves_out_exceptions_until_their_last_day(checkout: Path) -> None:
    pretend_setup(checkout)
    (checkout / "deploy").mkdir()
    (checkout / "deploy" / "audit_exceptions.txt").write_text(
        "# A comment.\nPYSEC-2026-1 9999-12-31 no caller\nPYSEC-2026-2 2026-01-01 it is over\n"
    )
    for program, script in (("bin/uv", "true"), ("audit/bin/pip-audit", 'echo "$@"; exit 1')):
        file = checkout / ".venv" / program
        file.parent.mkdir(parents=True)
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
    done = make(checkout, "audit")
    # A weakness ends the audit with an error.
    assert done.returncode != 0
    given = done.stdout.splitlines()[-1]
    assert given.endswith("--strict --ignore-vuln PYSEC-2026-1")


def test_each_exception_of_the_audit_has_an_identifier_a_day_and_a_reason() -> None:
    lines = (ROOT / "deploy" / "audit_exceptions.txt").read_text().splitlines()
    wrong = [each for each in lines if not re.match(r"#|[A-Z][\w-]+ \d{4}-\d\d-\d\d \S", each)]
    assert wrong == []
