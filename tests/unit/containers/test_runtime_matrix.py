"""What the comparison of two runtimes finds wrong."""

from __future__ import annotations

from typing import Any

from runtime_matrix import list_differences


def outcome(runtime: str, verdict: str = "passed", *, met: bool = True) -> dict[str, Any]:
    return {"scenario": "s", "runtime": runtime, "verdict": verdict, "met": met, "why": f"it {verdict}"}


def test_the_same_expected_verdict_is_no_problem() -> None:
    assert list_differences([outcome("process"), outcome("docker")]) == []


def test_two_verdicts_are_one() -> None:
    both = [outcome("process"), outcome("docker", "failed", met=False)]
    assert list_differences(both) == ["s is passed on process, failed on docker", "s on docker: it failed"]


def test_the_same_verdict_that_nobody_expected_is_one() -> None:
    both = [outcome(runtime, "unknown", met=False) for runtime in ("process", "docker")]
    assert list_differences(both) == ["s on process: it unknown", "s on docker: it unknown"]
