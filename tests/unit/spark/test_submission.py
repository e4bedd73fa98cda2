"""A Spark job that is submitted on this machine: how its end and that of the submitting process are handled."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from brokerproof.errors import RunError
from brokerproof.settings import from_environment
from brokerproof.spark import submission

Submit = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def submit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Submit:
    """Submits a job for which a shell runs a script, and returns the shell's process, also after an exception."""
    monkeypatch.setenv("BROKERPROOF_VAR", str(tmp_path))

    def execute(script: str, **options: Any) -> subprocess.Popen[str]:
        started: list[subprocess.Popen[str]] = []
        popen: Any = subprocess.Popen

        def start(command: list[str], **more: Any) -> subprocess.Popen[str]:
            assert command[0] == "spark-submit"
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
    assert str(failed.value) == "spark-submit verify ended with status 126: java: Permission denied"


def test_a_job_does_not_outlive_the_process_that_waits_for_it(submit: Submit) -> None:
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    assert submit("echo started; exec sleep 600", log=interrupt).wait(timeout=30) < 0
