"""The files of expectations/, and what is wrong with a file that must not be believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from brokerproof.errors import InputError
from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.metrics import METRICS
from brokerproof.suites.suite_file import read_suite

from .conftest import EXPECTATIONS, rewrite

Change = Callable[[dict[str, Any]], None]


def _names(suite: Suite) -> set[str]:
    return {written.name for written in read_suite([str(EXPECTATIONS)], suite).expectations}


@pytest.mark.parametrize("anomaly", Anomaly)
def test_every_anomaly_has_an_expectation_in_its_suite(anomaly: Anomaly) -> None:
    assert anomaly in _names(anomaly.facts.suite)


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_has_an_expectation_in_its_suite(metric: str) -> None:
    assert metric in _names(METRICS[metric].suite)


@pytest.mark.parametrize("suite", Suite)
def test_every_expectation_says_to_a_person_what_must_hold(suite: Suite) -> None:
    for written in read_suite([str(EXPECTATIONS)], suite).expectations:
        assert written.description.endswith(".")
        assert " " in written.description


def _remove_lost(content: dict[str, Any]) -> None:
    content["expectations"] = [entry for entry in content["expectations"] if entry["kwargs"]["anomaly"] != "lost"]


def _change_first(**changes: Any) -> Change:
    return lambda content: content["expectations"][0].update(changes)


def _change_first_kwargs(**changes: Any) -> Change:
    return lambda content: content["expectations"][0]["kwargs"].update(changes)


@pytest.mark.parametrize(
    ("suite", "change", "told"),
    [
        ("completeness", _remove_lost, "no expectation is about `lost`"),
        ("completeness", lambda content: content.update(expectations=[]), "holds no expectation"),
        ("completeness", lambda content: content.pop("expectations"), "holds no expectation"),
        ("completeness", lambda content: content.update(name="ordering"), "not `completeness`"),
        ("completeness", lambda content: content.update(suite_parameters={}), "unknown field `suite_parameters`"),
        ("completeness", lambda content: content["expectations"].append("lost"), "is no expectation"),
        (
            "completeness",
            lambda content: content["expectations"].append(content["expectations"][0]),
            "two expectations",
        ),
        ("completeness", _change_first(type="expect_nothing"), "no kind of expectation is called `expect_nothing`"),
        ("completeness", _change_first(description=" "), "description"),
        ("completeness", _change_first(kwargs={}), "does not say its `anomaly`"),
        ("completeness", _change_first(severity="info"), "unknown field `severity`"),
        ("completeness", _change_first_kwargs(row_condition='col("seq") > 5'), "unknown field `row_condition`"),
        ("completeness", _change_first_kwargs(mostly=0.5), "unknown field `mostly`"),
        ("completeness", _change_first_kwargs(result_format="BOOLEAN_ONLY"), "unknown field `result_format`"),
        ("completeness", _change_first_kwargs(anomaly="stored_twice"), "`stored_twice` is not judged by completeness"),
        ("placement", _change_first_kwargs(maximum=float("nan")), "is no number: `NaN`"),
        ("placement", _change_first_kwargs(maximum="0"), 'is no number: `"0"`'),
        ("placement", _change_first_kwargs(required="no"), "is not true or false"),
        # The first of placement are segments that do not span; the table of metrics allows none.
        ("placement", _change_first_kwargs(maximum=1), "allows more than the bound of `segments_not_spanning`, 0"),
        ("placement", _change_first(kwargs={"metric": "segments_not_spanning", "required": True}), "allows more than"),
        (
            "placement",
            _change_first_kwargs(required=False),
            "does not require that `segments_not_spanning` is measured",
        ),
    ],
)
def test_a_file_that_does_not_ask_everything_is_refused(
    written_suites: Path, suite: str, change: Change, told: str
) -> None:
    rewrite(written_suites, suite, change)
    with pytest.raises(InputError) as refused:
        read_suite([str(written_suites)], Suite(suite))
    assert told in str(refused.value)
    assert refused.value.file == f"{written_suites}/{suite}.json"


@pytest.mark.parametrize("content", ["{", "[]", "\udcff"])
def test_a_malformed_file_is_refused_by_name(written_suites: Path, content: str) -> None:
    path = written_suites / "ordering.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=r"ordering\.json"):
        read_suite([str(written_suites)], Suite.ORDERING)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ordering\.json: no such file"):
        read_suite([str(tmp_path)], Suite.ORDERING)


def test_the_first_directory_that_has_a_suite_gives_it(written_suites: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (written_suites / "recovery.json").rename(mine / "recovery.json")
    rewrite(mine, "recovery", lambda content: content["expectations"][0]["kwargs"].update(maximum=60))
    both = [str(mine), str(EXPECTATIONS)]
    assert read_suite(both, Suite.RECOVERY).path == f"{mine}/recovery.json"
    assert read_suite(both, Suite.RECOVERY).expectations[0].maximum == 60
    assert read_suite(both, Suite.ORDERING).path == f"{EXPECTATIONS}/ordering.json"


def test_a_missing_expectation_is_named_with_what_to_add(written_suites: Path) -> None:
    rewrite(written_suites, "completeness", _remove_lost)
    with pytest.raises(InputError) as refused:
        read_suite([str(written_suites)], Suite.COMPLETENESS)
    entry = {
        "type": "expect_no_illegal_anomaly",
        "kwargs": {"anomaly": "lost"},
        "description": Anomaly.LOST.facts.demand,
    }
    assert f"run `make docs`, or add {json.dumps(entry)}" in str(refused.value)


def test_a_file_may_be_stricter_than_the_metric(written_suites: Path) -> None:
    rewrite(written_suites, "recovery", lambda content: content["expectations"][0]["kwargs"].update(maximum=60))
    (first, *_) = read_suite([str(written_suites)], Suite.RECOVERY).expectations
    assert (first.name, first.maximum) == ("detect_s", 60)
