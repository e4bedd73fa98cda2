"""Class data of a running node is kept whole or not at all. A stand-in for jcmd writes what it is told to."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from brokerproof.systems.jvm import software

# `jcmd PID VM.cds static_dump FILE`
WRITES = 'echo classes > "$4.classlist"; echo data > "$4"'
FAILS = 'echo classes > "$4.classlist"; echo half > "$4"; echo "no such option"; exit 1'
WRITES_NOTHING = 'echo "Java says no"'


def dump(tmp_path: Path, act: str, **options: float) -> tuple[bool, list[str]]:
    """Whether it worked, and the files beside the archive."""
    jcmd = tmp_path / "java" / "bin" / "jcmd"
    jcmd.parent.mkdir(parents=True)
    jcmd.write_text(f"#!/bin/sh\n{act}\n")
    jcmd.chmod(0o755)
    path = tmp_path / "cache" / "a.jsa"
    worked = software.dump(path, java=jcmd.with_name("java"), pid=1, **options)
    return worked, sorted(left.name for left in path.parent.iterdir())


def test_an_archive_is_kept_and_nothing_else(tmp_path: Path) -> None:
    assert dump(tmp_path, WRITES) == (True, ["a.jsa"])


@pytest.mark.parametrize(("act", "reason"), [(FAILS, "no such option"), (WRITES_NOTHING, "Java says no")])
def test_one_that_fails_is_reported_and_leaves_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, act: str, reason: str
) -> None:
    assert dump(tmp_path, act) == (False, [])
    assert reason in caplog.text


def test_one_that_takes_too_long_leaves_nothing(tmp_path: Path) -> None:
    assert dump(tmp_path, f"{WRITES}; exec sleep 30", timeout_s=0.2) == (False, [])


def test_a_dump_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    left = tmp_path / "cache" / f".a.jsa@{socket.gethostname()}.{2**22 + 1}-1.temp"
    left.parent.mkdir()
    left.touch()
    assert dump(tmp_path, WRITES) == (True, ["a.jsa"])


def test_environments_share_an_archive_if_java_accepts_it(tmp_path: Path) -> None:
    """Java compares the size and the time of its file of modules, and not its path."""
    for home in ("first", "second"):
        (tmp_path / home / "lib").mkdir(parents=True)
        (tmp_path / home / "release").write_text("21")
        (tmp_path / home / "lib" / "modules").write_text("modules")
        os.utime(tmp_path / home / "lib" / "modules", (1, 1))

    def locate(home: str) -> Path:
        return software.archive("broker", java=tmp_path / home / "bin" / "java", heap_mb=64)

    assert locate("first") == locate("second")
    os.utime(tmp_path / "second" / "lib" / "modules", (1, 2))
    assert locate("first") != locate("second")
