"""Spark uses its class data archive, and starts without an archive that does not fit."""

from __future__ import annotations

import subprocess
from itertools import takewhile
from pathlib import Path

import pytest
from brokerproof.machine.java import find_java_home, find_spark_java_home
from brokerproof.settings import from_environment
from brokerproof.spark.job_configuration import build_spark_conf, list_java_options, locate_archive

SETTING = "java.class.path = "


def class_path_seen(java: Path, given: str) -> list[str]:
    shown = subprocess.run(
        [java / "bin" / "java", "-cp", given, "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    lines = shown[shown.index(SETTING) + len(SETTING) :].splitlines()
    more = takewhile(lambda line: line.startswith(" " * 8), lines[1:])
    return [lines[0], *(line.strip() for line in more)]


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    for name in ("b.jar", "a.jar", "first.jar"):
        (tmp_path / name).write_bytes(b"")
    return tmp_path


def test_the_wrapper_gives_java_every_jar_once_and_in_one_order(jars: Path) -> None:
    given = f"{jars}/conf/:{jars}/first.jar:{jars}/*"
    wanted = [f"{jars}/first.jar", f"{jars}/a.jar", f"{jars}/b.jar"]
    assert class_path_seen(find_spark_java_home(), given) == wanted
    assert class_path_seen(find_java_home(), given) != wanted  # which is why there is a wrapper


def test_the_wrapper_passes_an_option_with_blanks_whole(jars: Path) -> None:
    shown = subprocess.run(
        [
            find_spark_java_home() / "bin" / "java",
            "-Dsaid=two words",
            "-Dnothing=",
            "-XshowSettings:properties",
            "-version",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    assert "said = two words\n" in shown


def test_local_jobs_use_an_archive_that_exists(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    option = f"-XX:SharedArchiveFile={locate_archive()}"

    def options(*, local: bool = True) -> str:
        return build_spark_conf(from_environment(), tmp_path, local=local).get("spark.driver.extraJavaOptions", "")

    assert option not in options()
    locate_archive().parent.mkdir(parents=True)
    locate_archive().write_bytes(b"")
    assert option in options()
    assert option not in options(local=False)


def test_java_starts_without_a_message_if_the_archive_does_not_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    locate_archive().parent.mkdir(parents=True)
    locate_archive().write_bytes(b"cut off")
    ran = subprocess.run(
        [find_spark_java_home() / "bin" / "java", *list_java_options(), "--list-modules"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.startswith("java.base@")
    assert not ran.stderr
