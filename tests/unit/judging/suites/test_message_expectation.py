"""What a group of messages is to an expectation, also where its lists of anomalies have holes."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from brokerproof_judging.suites.tally import Tally


@pytest.fixture(scope="module")
def expectations() -> ModuleType:
    """The module under test, which imports Great Expectations. That would take seconds while pytest collects."""
    from brokerproof_judging.suites import message_expectation

    return message_expectation


@pytest.mark.parametrize(
    ("anomalies", "illegal", "anomaly", "what"),
    [
        ([], [], "lost", ""),
        (["duplicated"], ["duplicated"], "lost", ""),
        (["lost"], ["lost"], "lost", "unexpected"),
        (["lost"], [], "lost", "legal"),
        (["unproven"], [], "unproven", "undecided"),
        (["lost", "unproven"], ["lost"], "unproven", "undecided"),
        (["lost", "unproven"], ["lost"], "lost", "unexpected"),
        # A list that is null, or a null in a list, may be the anomaly.
        (None, [], "lost", "undecided"),
        ([], None, "lost", "undecided"),
        ([None], [], "lost", "undecided"),
        ([], [None], "lost", "undecided"),
        (["lost"], [None], "lost", "undecided"),
        ([None, "lost"], [None, "lost"], "lost", "unexpected"),
        (None, ["lost"], "lost", "unexpected"),
    ],
)
def test_a_group_is_judged_by_its_lists(
    expectations: ModuleType, anomalies: Any, illegal: Any, anomaly: str, what: str
) -> None:
    assert expectations.judge_group({"anomalies": anomalies, "illegal": illegal}, anomaly) == what


@pytest.mark.parametrize(("rows", "unexpected", "percent"), [(40, 10, 25.0), (40, 0, 0.0), (0, 0, 0.0), (1, 1, 100.0)])
def test_a_result_has_the_share_of_unexpected_rows_and_samples(
    monkeypatch: pytest.MonkeyPatch, expectations: ModuleType, rows: int, unexpected: int, percent: float
) -> None:
    tally = Tally(rows=rows, unexpected=unexpected, undecided=0, legal=0)
    samples = [{"run_id": "run-1", "producer": "p1", "seq": 0, "subscription": None, "illegal": [], "segment": 7}]
    kind = expectations.ExpectNoIllegalAnomaly
    monkeypatch.setattr(kind, "read_tally", lambda *_: (tally, samples))
    monkeypatch.setattr(kind, "describe_observed", lambda *_: "")
    result = kind(anomaly="lost")._validate({})["result"]
    assert (result["rows"], result["unexpected_count"], result["unexpected_percent"]) == (rows, unexpected, percent)
    # Data Docs show neither what a row lacks nor the run, which is the same in all rows.
    assert result["partial_unexpected_list"] == ["producer p1, seq 0, segment 7"]
    assert result["details"] == {"samples": samples}
