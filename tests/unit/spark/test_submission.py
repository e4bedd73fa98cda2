"""A Spark job that is submitted on this machine: how its end and that of the submitting process are handled."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from brokerproof.errors import RunError
from brokerproof.settings import from_environment
from brokerproof.spark import submission
from brokerproof.spark.job_configuration import build_spark_environment

Submit = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def submit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Submit:
    """Submits a job for which a shell runs a script, and returns the shell's process, also after an exception."""
    monkeypatch.setenv("BROKERPROOF_VAR", str(tmp_path))

    def execute(script: str, **options: Any) -> subprocess.Popen[str]:
        started: list[subprocess.Popen[str]] = []
        popen: Any = subprocess.Popen

        def start(command: list[str], **more: Any) -> subprocess.Popen[str]:
            assert [Path(file).name for file in command[1:]] == ["run_locally.py", "verify.py"]
            started.append(popen(["/bin/sh", "-c", script], **more))
            return started[-1]

        with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
            patched.setattr(submission.subprocess, "Popen", start)
            submission.submit_locally(from_environment(), "verify", [], **options)
        return started[0]

    return execute


def test_a_job_that_names_no_exception_is_explained_by_its_last_line(submit: Submit) -> None:
    with pytest.raises(RunError) as failed:
        submit("echo starting; echo 'java: Permission denied'; exit 126")
    assert str(failed.value) == "the Spark job verify ended with status 126: java: Permission denied"


def test_a_job_does_not_outlive_the_process_that_waits_for_it(submit: Submit) -> None:
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    assert submit("echo started; exec sleep 600", log=interrupt).wait(timeout=30) < 0


def test_a_job_runs_with_its_arguments_and_its_java_and_leaves_its_status(tmp_path: Path) -> None:
    settings = from_environment()
    jobs = tmp_path / "spark_jobs"
    jobs.mkdir()
    shutil.copy(settings.spark_jobs / "run_locally.py", jobs)
    (jobs / "job.py").write_text(
        "import sys\nfrom pyspark import SparkContext\ncontext = SparkContext()\n"
        "print('ran', sys.argv[1:], context.appName, context.master)\nraise SystemExit(7)\n"
    )
    options = ["--master", "local[3]", "--name", "a job's name"]
    command, environment = submission.build_local_command(
        settings.model_copy(update={"home": tmp_path}), options, "job", ["one argument"]
    )
    environment = {**os.environ, **build_spark_environment(settings, tmp_path, local=True), **environment}
    # Its output ends when Java has ended too.
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (7, "ran ['one argument'] a job's name local[3]\n"), done.stderr
