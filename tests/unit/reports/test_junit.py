"""What a build sees of a run: green exactly if the run is as its scenario expects."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest
from brokerproof.experiment.guarantees import Suite
from brokerproof.reports.junit import MOST_SAMPLES, render_junit
from brokerproof.run.directory import Run
from brokerproof.run.records import StepProblem, write_record
from builders import make_check, make_measurement

# The result elements and attributes that Jenkins' schema `junit-10` knows.
RESULTS = {"failure", "error", "skipped"}
ATTRIBUTES = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "timestamp", "tests", "failures", "errors", "skipped", "time"},
    "properties": set(),
    "property": {"name", "value"},
    "testcase": {"name", "classname", "time"},
    **{tag: {"type", "message"} for tag in RESULTS},
}
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase"},
    "properties": {"property"},
    "testcase": RESULTS,
}
LOST_CONTROL = {"expect": {"verdict": "failed", "at_least": {"lost": 1}}}


def parse(run: Run) -> ET.Element:
    """The file, with its structure and its numbers checked."""
    root = ET.fromstring(render_junit(run).encode())
    for element in root.iter():
        assert set(element.attrib) <= ATTRIBUTES[element.tag]
        assert {child.tag for child in element} <= CHILDREN.get(element.tag, set())
    for element in (root, *root):
        cases = list(element.iter("testcase"))
        assert max(map(len, cases), default=0) <= 1
        assert element.get("tests") == str(len(cases))
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            if attribute in element.attrib:
                assert element.get(attribute) == str(sum(case.find(tag) is not None for case in cases))
    return root


def find_result(root: ET.Element, suite: str, case: str) -> ET.Element | None:
    """The result element of a test case, None where it passed."""
    found = root.find(f"testsuite[@name='{suite}']/testcase[@name='{case}']")
    assert found is not None, f"{suite} has no case {case}"
    return found[0] if len(found) else None


def is_green(root: ET.Element) -> bool:
    return (root.get("failures"), root.get("errors")) == ("0", "0")


def expect_result(root: ET.Element, suite: str, case: str, tag: str) -> str:
    """The text of a result that has to be of this kind."""
    result = find_result(root, suite, case)
    assert result is not None
    assert result.tag == tag
    assert (result.text or "").splitlines()[0] == result.get("message")
    return result.text or ""


def test_a_run_as_expected_is_green_and_has_a_case_for_every_expectation(plant, judgement):
    root = parse(plant(judged=judgement()))
    assert is_green(root)
    assert [suite.get("name") for suite in root] == [
        *("run", "completeness", "uniqueness", "ordering", "placement", "recovery")
    ]
    assert find_result(root, "run", "verdict") is None
    assert find_result(root, "ordering", "expect_ordering") is None
    assert not list(root.iter("skipped"))


def test_the_properties_and_the_time_are_those_of_the_run(plant, judgement):
    root = parse(plant("r7", judged=judgement()))
    for suite in root:
        named = {each.get("name"): each.get("value") for each in suite.iter("property")}
        assert named == {
            **{"run_id": "r7", "scenario": "kill_region", "topology": "stretched", "runtime": "process"},
            **{"system": "pulsar", "system_version": "4.0.8"},
            **{"verdict": "passed", "expected": "passed", "as_expected": "yes"},
        }
    assert root.get("time") == "130.500"
    assert root[0].get("timestamp") == "2026-01-01T00:00:00"


def test_a_failed_expectation_says_how_many_rows_what_they_are_and_shows_some(plant, plant_check):
    samples = [{"run_id": "r1", "producer": "p0", "seq": seq, "subscription": None} for seq in range(30)]
    root = parse(
        plant(judged=plant_check("completeness", "lost", "failed", unexpected=1470, rows=94_884, samples=samples))
    )
    text = expect_result(root, "completeness", "lost", "failure")
    assert text.startswith("1,470 of 94,884 rows are `lost`: such a message was acked or seen, and is not")
    assert '{"producer": "p0", "seq": 9}' in text
    assert '"seq": 10' not in text
    assert text.count("producer") == MOST_SAMPLES
    assert text.endswith("and 1,460 more")
    assert expect_result(root, "run", "verdict", "failure").startswith("failed instead of passed")


@pytest.mark.parametrize(
    ("metric", "row", "sentence"),
    [
        ("rto_s", {"value": 126.3135, "maximum": 110.0}, "is 126.314 s, and has to be at most 110 s"),
        ("rate_held", {"value": 0.5, "minimum": 0.95}, "is 0.5 share, and has to be at least 0.95 share"),
        # Its bound is not the scenario's but the metric's own.
        ("under_replicated_segments", {"value": 14.0}, "is 14 segments, and has to be at most 0 segments"),
        ("rto_s", {"value": "Infinity", "maximum": 1.0}, "is inf s, and has to be at most 1 s"),
    ],
)
def test_a_failed_measurement_says_the_bound_and_what_was_observed(plant, plant_check, metric, row, sentence):
    unit = {"rto_s": "s", "rate_held": "share"}.get(metric, "segments")
    sample = {"subject": "kill_us", "minimum": None, "maximum": None, "unit": unit, "evidence": "seen", **row}
    suite = "placement" if unit == "segments" else "recovery"
    root = parse(plant(judged=plant_check(suite, metric, "failed", unexpected=1, samples=[sample])))
    text = expect_result(root, suite, metric, "failure")
    assert text.startswith(f"`{metric}` of kill_us {sentence}: seen")


@pytest.mark.parametrize("verdict", ["unknown", "no_data"])
def test_an_expectation_without_enough_evidence_is_an_error(plant, plant_check, verdict):
    root = parse(plant(judged=plant_check("completeness", "lost", verdict)))
    assert expect_result(root, "completeness", "lost", "error").startswith("why of completeness")
    expect_result(root, "run", "verdict", "error")
    assert not is_green(root)


def test_what_could_not_be_measured_says_why(plant, plant_check):
    sample = {"subject": "kill_us", "value": None, "unit": "s", "minimum": None, "maximum": 9.0, "evidence": "no ack"}
    root = parse(plant(judged=plant_check("recovery", "rto_s", "unknown", undecided=1, samples=[sample])))
    text = expect_result(root, "recovery", "rto_s", "error")
    assert text.startswith("`rto_s` of kill_us could not be measured, and has to be at most 9 s: no ack")


def test_what_the_system_cannot_be_asked_is_skipped_with_the_reason(plant, plant_check):
    judged = plant_check("uniqueness", "stored_twice", "not_applicable", why="the system has no positions")
    judged["suites"]["uniqueness"] |= {"evaluated": 0, "written": 0}
    root = parse(plant(judged=judged))
    assert expect_result(root, "uniqueness", "stored_twice", "skipped").startswith("the system has no positions")
    assert is_green(root)


def test_a_control_that_failed_as_expected_is_green_and_shows_what_failed(plant, plant_check):
    judged = plant_check("completeness", "lost", "failed", unexpected=3)
    judged["counts"]["illegal"] = {"lost": 3}
    root = parse(plant(judged=judged, changes=LOST_CONTROL))
    assert is_green(root)
    assert find_result(root, "run", "verdict") is None
    text = expect_result(root, "completeness", "lost", "skipped")
    assert text.startswith("failed in a run that is as expected: 3 of 1,000 rows are `lost`")


def test_a_control_that_did_not_fail_is_red(plant, judgement):
    root = parse(plant(judged=judgement(), changes=LOST_CONTROL))
    assert not is_green(root)
    assert expect_result(root, "run", "verdict", "failure").startswith("passed instead of failed")


def test_a_control_that_failed_for_another_reason_is_red(plant, plant_check):
    root = parse(plant(judged=plant_check("recovery", "rto_s", "failed", unexpected=1), changes=LOST_CONTROL))
    assert not is_green(root)
    expect_result(root, "recovery", "rto_s", "failure")
    assert "lost was found 0 times" in expect_result(root, "run", "verdict", "failure")


def test_a_run_that_was_not_judged_is_an_error_with_the_reason(plant):
    root = parse(plant())
    assert [suite.get("name") for suite in root] == ["run"]
    assert "`verify` left no judgement" in expect_result(root, "run", "verdict", "error")


def test_a_suite_that_was_not_judged_is_an_error(plant, judgement):
    judged = judgement()
    del judged["suites"]["ordering"]
    root = parse(plant(judged=judged))
    assert expect_result(root, "ordering", "suite", "error") == "suite ordering was not judged"


@pytest.mark.parametrize("name", ["mine", "run"])
def test_a_users_suite_has_its_cases_beside_the_five(plant, judgement, name):
    judged = judgement()
    (check,) = judged["suites"]["ordering"]["expectations"]
    broken = check | {"name": "on a table", "table": "stored", "verdict": "failed", "unexpected": 2}
    judged["suites"][name] = judged["suites"]["ordering"] | {"verdict": "failed", "expectations": [broken]}
    root = parse(plant(judged=judged))
    assert [suite.get("name") for suite in root] == ["run", *Suite, name]
    (case,) = root[-1].iter("testcase")
    assert (case.get("name"), case[0].tag, case[0].get("message")) == (
        "on a table",
        "failure",
        "The demand of expect_ordering. 2 of 1,000 rows break it",
    )
    assert not is_green(root)


def test_a_failure_begins_with_the_users_own_description_once(plant, plant_check):
    own = {"description": "No order is lost", "unexpected": 2}
    samples = [{"producer": "p0", "seq": 4, "run_id": "r1", "cluster": "c"}]
    root = parse(plant(judged=plant_check("completeness", "lost", "failed", samples=samples, **own)))
    text = expect_result(root, "completeness", "lost", "failure")
    assert text.startswith("No order is lost. 2 of 1,000 rows are `lost`: such a message was acked or seen")
    assert text.splitlines()[1] == '{"producer": "p0", "seq": 4, "cluster": "c"}'
    # The reason of the suite has the description already.
    judged = plant_check("completeness", "lost", "unknown", **own)
    judged["suites"]["completeness"]["why"] = "No order is lost. `lost` was evaluated 2 times."
    text = expect_result(parse(plant("r2", judged=judged)), "completeness", "lost", "error")
    assert text.splitlines()[0] == "No order is lost. `lost` was evaluated 2 times."


def plant_measured(judgement, *rows, suite="recovery", **check):
    """A judgement that passed, with an expectation about the metric of the rows."""
    name = rows[0].metric if rows else "link_added_p99_ms"
    judged = judgement()
    judged["suites"][suite]["expectations"] = [make_check(name, rows=len(rows), **check).model_dump(mode="json")]
    return judged | {"measurements": [row.model_dump(mode="json") for row in rows]}


def test_a_measurement_without_a_bound_is_skipped_with_its_value_because_nothing_tested_it(plant, judgement):
    rows = [
        make_measurement("", "reassign_s", 2.5, subject="kill_us"),
        make_measurement("", "reassign_s", None, subject="kill_eu", evidence="owner was not a target"),
    ]
    root = parse(plant(judged=plant_measured(judgement, *rows)))
    assert is_green(root)
    text = expect_result(root, "recovery", "reassign_s", "skipped")
    assert text.startswith(
        "no bound: `reassign_s` of kill_us is 2.5 s; "
        "`reassign_s` of kill_eu could not be measured: owner was not a target"
    )
    assert find_result(root, "recovery", "reassign_s").get("type") == "no_bound"


@pytest.mark.parametrize("bounds", [{"rows": {"maximum": 3.0}}, {"check": {"maximum": 3.0}}])
def test_a_measurement_within_a_bound_of_the_scenario_or_of_the_suite_is_a_passed_test(plant, judgement, bounds):
    row = make_measurement("", "reassign_s", 2.5, subject="kill_us", **bounds.get("rows", {}))
    root = parse(plant(judged=plant_measured(judgement, row, **bounds.get("check", {}))))
    assert find_result(root, "recovery", "reassign_s") is None


def test_a_metric_of_which_the_run_has_no_value_is_skipped_with_the_reason(plant, judgement):
    root = parse(plant(judged=plant_measured(judgement)))
    text = expect_result(root, "recovery", "link_added_p99_ms", "skipped")
    assert text.startswith("not measured: the run has no way and phase or fault that slows to which it applies")


def test_a_bound_of_a_users_suite_is_named(plant, plant_check):
    sample = {"subject": "kill_us", "value": 75.0, "unit": "s", "minimum": None, "maximum": None}
    judged = plant_check("recovery", "rto_s", "failed", unexpected=1, maximum=60.0, samples=[sample])
    text = expect_result(parse(plant(judged=judged)), "recovery", "rto_s", "failure")
    assert text.startswith("`rto_s` of kill_us is 75 s, and has to be at most 60 s")


def test_a_suite_that_is_worse_than_its_expectations_says_so(plant, judgement):
    judged = judgement()
    judged["suites"]["placement"] |= {"verdict": "unknown", "why": "The suite could not be judged", "expectations": []}
    root = parse(plant(judged=judged))
    assert expect_result(root, "placement", "suite", "error") == "The suite could not be judged"


def test_a_passed_judgement_of_a_run_with_a_broken_step_is_red(plant, judgement):
    run = plant(judged=judgement())
    write_record(run, StepProblem(step="load", problem="the client was refused"))
    root = parse(run)
    assert "the client was refused" in expect_result(root, "run", "verdict", "error")


def test_characters_that_xml_forbids_are_shown_escaped(plant, plant_check):
    planted = '\x00\x1b[31m\x0b\ufffe and <b> & "quotes" \U0001f4a5 é'
    sample: dict[str, Any] = {"subject": planted, "value": 2.0, "unit": "s", "maximum": 1.0, "evidence": planted}
    run = plant(judged=plant_check("recovery", "rto_s", "failed", unexpected=1, samples=[sample]))
    with pytest.raises(ET.ParseError):
        ET.fromstring(f"<a>{chr(0x1B)}</a>")
    text = expect_result(parse(run), "recovery", "rto_s", "failure")
    assert '\\x00\\x1b[31m\\x0b\\ufffe and <b> & "quotes" \U0001f4a5 é' in text
