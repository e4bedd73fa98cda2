"""The configuration of Spark's processes: who may talk to whom, and where the secret is."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from brokerproof.settings import Settings
from brokerproof.spark.job_configuration import KEEP_MEMORY, build_spark_conf, build_spark_environment


def test_a_process_of_a_cluster_reads_the_secret_from_a_private_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "spark-defaults.conf").write_text("spark.cores.max 8\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "given"))
    settings = Settings(spark_secret="known")
    environment = build_spark_environment(settings, tmp_path, local=False)
    file = Path(environment["SPARK_CONF_DIR"]) / "spark-defaults.conf"
    lines = file.read_text().splitlines()
    assert {"spark.cores.max 8", "spark.authenticate true", "spark.authenticate.secret known"} <= set(lines)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    # Options of a command are visible to each user of the machine, and so is what they configure.
    assert "known" not in str(build_spark_conf(settings, tmp_path, local=False))


def test_without_a_secret_a_cluster_is_used_as_it_is(tmp_path: Path) -> None:
    assert "SPARK_CONF_DIR" not in build_spark_environment(Settings(), tmp_path, local=False)


def test_a_local_job_makes_a_secret_of_its_own(tmp_path: Path) -> None:
    conf = build_spark_conf(Settings(), tmp_path, local=True)
    assert conf["spark.authenticate"] == "true"
    assert "spark.authenticate.secret" not in conf


def test_only_the_workers_of_judging_keep_their_memory(tmp_path: Path) -> None:
    judging = build_spark_conf(Settings(), tmp_path, local=False, messages=1)
    assert KEEP_MEMORY.items() <= judging.items()
    assert not KEEP_MEMORY.keys() & build_spark_conf(Settings(), tmp_path, local=False).keys()
