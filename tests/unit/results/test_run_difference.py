"""Two runs side by side: everything that differs is found, nothing else, and noise is told from a difference."""

from __future__ import annotations

import io
import json

import pytest
from brokerproof.cli import main
from brokerproof.reports.history_view import print_difference
from brokerproof.results.comparability import describe_differences, list_differences
from brokerproof.results.history import open_history
from brokerproof.results.regressions import ENOUGH_TO_SUSPECT
from brokerproof.results.run_difference import RunDifference, compare_two_runs
from rich.console import Console

RTO = ("rto_s", "kill_us")
HELD = ("rate_held", "steady")


@pytest.fixture
def noise(record):
    """Five comparable runs before, with an RTO of 51 to 53 s."""
    return [record(measured={RTO: value}) for value in (52.0, 51.0, 53.0, 52.5, 51.5)]


def find(differences, name):
    [found] = [each for each in differences if each.name == name]
    return found


def test_two_equal_runs_have_no_difference(record):
    a, b = (record(measured={RTO: 52.0}) for _ in range(2))

    found = compare_two_runs(a, b, [])

    assert found == RunDifference(
        a="r0", b="r1", comparable=True, rule=found.rule, settings=(), versions=(), words=(), counts=(), measurements=()
    )


def test_what_was_set_otherwise_is_listed_by_field(record):
    a = record(changes={"settings": {"broker": {"zooKeeperSessionTimeoutMillis": 5000}}}, versions={"java": "21.0.7"})
    b = record(
        changes={
            "title": "Another title",
            "workload": {"namespace": "shop/orders", "rate": 2000},
            "faults": [{"name": "kill_us", "kind": "kill", "targets": {"region": "us"}, "at_s": 3}],
        },
        versions={"java": "21.0.8"},
        machine={"architecture": "x86_64", "processors": 4096},
    )

    found = compare_two_runs(a, b, [])

    assert {(one.field, one.a, one.b) for one in found.settings if not one.field.startswith("machine.arch")} == {
        ("scenario.settings.broker.zooKeeperSessionTimeoutMillis", 5000, None),
        ("scenario.workload.rate", 1000, 2000),
        ("scenario.faults.0.at_s", 0.0, 3.0),
        ("machine.processors", a.parameters["machine"]["processors"], 4096),
    }
    assert [(one.field, one.a, one.b) for one in found.versions] == [("java", "21.0.7", "21.0.8")]
    assert not found.comparable


def test_what_came_out_otherwise_is_listed_with_its_size(record):
    a = record(measured={RTO: 50.0, HELD: 1.0}, illegal={}, legal={"delivered_twice": 4})
    b = record(
        "failed", measured={RTO: 75.0, HELD: 0.5, ("rpo_s", "kill_us"): 1.0}, failed=("completeness",),
        illegal={"lost": 3}, legal={"delivered_twice": 4},
    )  # fmt: skip

    found = compare_two_runs(a, b, [])

    assert [(one.name, one.a, one.b) for one in found.words] == [
        ("verdict", "passed", "failed"), ("as expected", "yes", "no"), ("suite completeness", "passed", "failed"),
    ]  # fmt: skip
    assert [(one.name, one.a, one.b, one.worse) for one in found.counts] == [("lost (illegal)", 0, 3, True)]
    rto, held, rpo = found.measurements
    assert (rto.name, rto.subject, rto.difference, rto.relative, rto.worse) == (*RTO, 25.0, 0.5, True)
    assert (held.difference, held.relative, held.worse) == (-0.5, -0.5, True)
    assert (rpo.a, rpo.b, rpo.difference, rpo.relative) == (None, 1.0, None, None)


def test_with_too_few_runs_before_nobody_knows_the_noise(record, noise):
    found = compare_two_runs(record(measured={RTO: 52.0}), record("failed", measured={RTO: 99.0}), noise[1:])

    assert found.rule.startswith(f"The noise is not known: 4 comparable runs before, {ENOUGH_TO_SUSPECT} needed. ")
    for one in (find(found.measurements, "rto_s"), find(found.words, "verdict")):
        # The rule says it once for all of them.
        assert (one.larger_than_noise, one.why) == (None, "")


def test_a_metric_that_too_few_runs_measured_says_so(record, noise):
    a, b = (record(measured={RTO: 52.0, HELD: share}) for share in (1.0, 0.5))

    held = find(compare_two_runs(a, b, noise).measurements, "rate_held")

    assert (held.larger_than_noise, held.why) == (None, "measured in 0 judged runs before, 5 needed")


@pytest.mark.parametrize("runs_before", [0, ENOUGH_TO_SUSPECT])
@pytest.mark.parametrize(
    ("a", "b", "worse", "larger"),
    [
        (0, 5742, True, True),
        (5741, 5742, True, True),
        (5742, 0, False, True),
        # Fewer are found, but some still are: this may be noise.
        (5742, 5741, False, None),
    ],
)
def test_more_illegal_anomalies_are_always_worse_and_none_any_more_is_better(record, runs_before, a, b, worse, larger):
    earlier = [record("failed", illegal={"lost": 5000 + 500 * number}) for number in range(runs_before)]

    found = compare_two_runs(record(illegal={"lost": a}), record(illegal={"lost": b}), earlier)

    lost = find(found.counts, "lost (illegal)")
    assert (lost.a, lost.b, lost.worse) == (a, b, worse)
    assert lost.larger_than_noise is (False if larger is None and runs_before else larger)
    assert "An illegal anomaly that is found more often is always worse" in found.rule


def test_a_legal_anomaly_may_be_noise(record):
    counts = compare_two_runs(record(legal={"lost": 0}), record(legal={"lost": 5742}), []).counts
    assert find(counts, "lost (legal)").larger_than_noise is None


def test_illegal_anomalies_after_a_run_that_was_not_judged_are_not_better(plant, judgement, sqlite_history):
    unjudged, judged = (
        sqlite_history.record(plant(f"r{number}", judged=found, minutes=number))
        for number, found in enumerate([None, judgement(illegal={"lost": 5742})])
    )

    lost = find(compare_two_runs(unjudged, judged, []).counts, "lost (illegal)")

    assert (lost.a, lost.b, lost.worse) == (None, 5742, None)


NOTHING_SET = object()


@pytest.mark.parametrize(
    ("a", "b", "texts"),
    [
        (True, False, ("true", "false")),
        (NOTHING_SET, False, ("not set", "false")),
        (False, NOTHING_SET, ("false", "not set")),
        (NOTHING_SET, None, ("not set", "null")),
        (NOTHING_SET, "", ("not set", '""')),
        (NOTHING_SET, [], ("not set", "[]")),
        (0, NOTHING_SET, ("0", "not set")),
        (False, 0, ("false", "0")),
        (None, False, ("null", "false")),
        ("", None, ('""', "null")),
        # A text that looks like another value has quotes.
        (False, "false", ("false", '"false"')),
    ],
)
def test_a_value_that_is_false_or_empty_is_shown_as_such_and_not_as_absent(a, b, texts):
    def make(value):
        return {"settings": {"broker": {"rate": 5} | ({} if value is NOTHING_SET else {"checked": value})}}

    [found] = list_differences(make(a), make(b))

    assert (found.field, found.texts) == ("settings.broker.checked", texts)
    assert found.absent_in == ("a" if a is NOTHING_SET else "b" if b is NOTHING_SET else None)


def test_equal_empty_values_are_no_difference():
    values = {"a": False, "b": None, "c": "", "d": [], "e": 0, "f": {}}
    assert list(list_differences(values, dict(values))) == []


def test_a_whole_fault_that_only_one_run_has_is_listed_without_the_fields_that_it_does_not_use():
    fault = {"name": "kill_us", "when": None, "permanent": False, "targets": {"region": "us", "nodes": []}}

    found = list_differences({"faults": []}, {"faults": [fault]})

    assert list(map(str, found)) == [
        "faults.0.name not set → kill_us",
        "faults.0.permanent not set → false",
        "faults.0.targets.region not set → us",
    ]


def test_a_mapping_in_place_of_a_single_value_is_one_difference():
    [found] = list_differences({"heal": "never"}, {"heal": {"at_s": 3}})
    assert str(found) == 'heal never → {"at_s": 3}'


def test_what_makes_two_runs_incomparable_names_the_value_false(record):
    a, b = (
        record(changes={"settings": {"broker": {"checked": True} | more}}).parameters
        for more in ({}, {"checked": False, "added": False})
    )
    # `added` alone would leave them comparable.
    assert describe_differences(a, b) == ["scenario.settings.broker.checked true → false"]


def test_a_setting_that_is_false_is_printed_as_false(record):
    a, b = (record(changes={"settings": {"broker": {"checked": checked}}}) for checked in (True, False))

    printed = print_on_80_columns(compare_two_runs(a, b, []))

    assert "scenario.settings.broker.checked true false" in printed
    assert compare_two_runs(a, b, []).model_dump(mode="json")["settings"] == [
        {"field": "scenario.settings.broker.checked", "a": True, "b": False, "absent_in": None}
    ]


def print_on_80_columns(difference):
    """The lines on a narrow terminal, with single spaces."""
    out = io.StringIO()
    print_difference(difference, Console(file=out, width=80, color_system=None))
    assert all(len(line) <= 80 for line in out.getvalue().splitlines())
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def test_the_rule_about_noise_is_printed_once(record):
    a = record(measured={(metric, "kill_us"): 1.0 for metric in ("rto_s", "detect_s", "first_ack_s")})
    b = record("failed", measured={(metric, "kill_us"): 2.0 for metric in ("rto_s", "detect_s", "first_ack_s")})

    printed = print_on_80_columns(compare_two_runs(a, b, []))

    assert " ".join(printed).count("noise is not known") == 1
    assert "rto_s of kill_us 1 2 +1 s +100% unknown" in printed


@pytest.mark.parametrize(("value", "larger"), [(54.0, False), (75.0, True), (40.0, True), (None, True)])
def test_a_difference_is_larger_than_the_noise_of_the_runs_before_or_not(record, noise, value, larger):
    a, b = record(measured={RTO: 52.0}), record(measured={RTO: value})

    rto = find(compare_two_runs(a, b, noise).measurements, "rto_s")

    assert rto.larger_than_noise is larger
    assert rto.worse is (value is None or value > 52.0)
    assert rto.why == "usually 52 ± 1.06 s in 5 runs"


def test_runs_of_another_set_up_say_nothing_about_the_noise(record):
    others = [record(measured={RTO: 52.0}, changes={"phases": {"impact_s": 90}}) for _ in range(ENOUGH_TO_SUSPECT)]

    found = compare_two_runs(record(measured={RTO: 52.0}), record(measured={RTO: 75.0}), others)

    assert find(found.measurements, "rto_s").larger_than_noise is None


def test_the_two_runs_themselves_say_nothing_about_the_noise(record, noise):
    a, b = noise[0], record(measured={RTO: 75.0})
    assert find(compare_two_runs(a, b, [*noise, b]).measurements, "rto_s").larger_than_noise is None


@pytest.mark.parametrize(("before", "larger"), [("passed", True), ("failed", False)])
def test_a_verdict_differs_by_more_than_noise_unless_runs_before_came_to_both(record, before, larger):
    earlier = [record(verdict) for verdict in ("passed",) * 4 + (before,)]

    found = compare_two_runs(record("passed"), record("failed"), earlier)

    assert find(found.words, "verdict").larger_than_noise is larger


def test_the_history_finds_the_runs_before(sqlite_history, record, noise):
    a, b = record(measured={RTO: 52.0}), record(measured={RTO: 75.0})
    record(measured={RTO: 900.0})

    rto = find(sqlite_history.compare_two(a, b).measurements, "rto_s")

    assert (rto.larger_than_noise, rto.why) == (True, "usually 52 ± 1.06 s in 5 runs")


def test_the_difference_is_printed(record, noise):
    a = record(measured={RTO: 52.0})
    b = record("failed", measured={RTO: 75.0}, changes={"version": "4.1.0"})
    out = io.StringIO()

    print_difference(compare_two_runs(a, b, noise), Console(file=out, width=160, color_system=None))

    lines = [line.split() for line in out.getvalue().splitlines()]
    assert ["pulsar", "4.0.8", "4.1.0"] in lines
    sentence = "rto_s of kill_us 52 75 +23 s +44% yes, worse usually 52 ± 1.06 s in 5 runs"
    assert sentence in [" ".join(line) for line in lines]
    assert any(line[:3] == ["verdict", "passed", "failed"] and "yes" in line for line in lines)


def test_two_equal_runs_are_printed_as_such(record):
    out = io.StringIO()
    print_difference(compare_two_runs(record(), record(), []), Console(file=out, width=100, color_system=None))
    assert "All results are equal." in out.getvalue()


@pytest.fixture
def recorded(tmp_path, monkeypatch, plant, judgement):
    """Two runs in the history of the command line."""
    monkeypatch.setenv("BROKERPROOF_DATABASE_URL", f"sqlite:///{tmp_path / 'history.db'}")
    with open_history() as history:
        for number, rto in enumerate((52.0, 75.0)):
            history.record(plant(f"r{number}", judged=judgement(measured={RTO: rto}), minutes=number))


def test_the_command_compares_two_runs(recorded, capsys):
    assert main(["history", "--compare", "r0", "r1", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["a"], printed["b"]) == ("r0", "r1")
    assert [(one["name"], one["difference"]) for one in printed["measurements"]] == [("rto_s", 23.0)]
    assert main(["history", "--compare", "r0", "r1"]) == 0
    assert "rto_s of kill_us" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--compare", "r0", "r9"],
            "no run called `r9` is known (give a run's id",
        ),
        (["kill_region", "--compare", "r0", "r1"], "leave out the scenarios"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused_with_a_sentence(recorded, capsys, arguments, sentence):
    assert main(["history", *arguments]) == 3
    assert sentence in " ".join(capsys.readouterr().err.split())
