"""The command of a process of a Spark cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from brokerproof.settings import from_environment
from brokerproof.spark.job_configuration import build_spark_conf, build_spark_environment
from brokerproof.spark.standalone import build_command


def test_a_worker_is_told_its_master() -> None:
    command = build_command(["worker", "spark://master:7077"])
    assert command == ["spark-class", "org.apache.spark.deploy.worker.Worker", "spark://master:7077"]


@pytest.mark.parametrize("arguments", [[], ["driver"]])
def test_anything_else_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        build_command(arguments)
    assert "{master,worker}" in capsys.readouterr().err


def test_only_a_driver_that_nobody_has_to_reach_hides_on_loopback(tmp_path: Path) -> None:
    settings = from_environment()
    assert build_spark_environment(settings, tmp_path, local=True)["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert "SPARK_LOCAL_IP" not in build_spark_environment(settings, tmp_path, local=False)
    assert "spark.driver.host" not in build_spark_conf(settings, tmp_path, local=False)


def test_a_driver_on_loopback_asks_for_a_secret(tmp_path: Path) -> None:
    """Other users of the machine reach loopback too. A cluster's drivers have the secret of their master."""
    assert build_spark_conf(from_environment(), tmp_path, local=True)["spark.authenticate"] == "true"
    assert "spark.authenticate" not in build_spark_conf(from_environment(), tmp_path, local=False)


def test_no_process_of_a_small_job_on_a_cluster_pays_for_the_second_compiler(tmp_path: Path) -> None:
    few = build_spark_conf(from_environment(), tmp_path, local=False, messages=1000)
    many = build_spark_conf(from_environment(), tmp_path, local=False, messages=100_000_000)
    for process in ("driver", "executor"):
        assert "-XX:TieredStopAtLevel=1" in few[f"spark.{process}.extraJavaOptions"]
        assert f"spark.{process}.extraJavaOptions" not in many
