"""Two runs side by side: everything that differs is found, nothing else, and noise is told from a difference."""

from __future__ import annotations

import io
import json

import pytest
from brokerproof.cli import main
from brokerproof.reports.history_view import print_difference
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
        a="r0", b="r1", comparable=True, settings=(), versions=(), words=(), counts=(), measurements=()
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

    for one in (find(found.measurements, "rto_s"), find(found.words, "verdict")):
        assert one.larger_than_noise is None
        assert one.why == f"the noise is not known: 4 comparable runs before, {ENOUGH_TO_SUSPECT} needed"


@pytest.mark.parametrize(("value", "larger"), [(54.0, False), (75.0, True), (40.0, True), (None, True)])
def test_a_difference_is_larger_than_the_noise_of_the_runs_before_or_not(record, noise, value, larger):
    a, b = record(measured={RTO: 52.0}), record(measured={RTO: value})

    rto = find(compare_two_runs(a, b, noise).measurements, "rto_s")

    assert rto.larger_than_noise is larger
    assert rto.worse is (value is None or value > 52.0)
    assert rto.why == "5 comparable runs before: 52 ± 1.06 s"


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

    assert (rto.larger_than_noise, rto.why) == (True, "5 comparable runs before: 52 ± 1.06 s")


def test_the_difference_is_printed(record, noise):
    a = record(measured={RTO: 52.0})
    b = record("failed", measured={RTO: 75.0}, changes={"version": "4.1.0"})
    out = io.StringIO()

    print_difference(compare_two_runs(a, b, noise), Console(file=out, width=160, color_system=None))

    lines = [line.split() for line in out.getvalue().splitlines()]
    assert ["pulsar", "4.0.8", "4.1.0"] in lines
    sentence = "rto_s of kill_us 52 s 75 s +23 s +44% yes, worse 5 comparable runs before: 52 ± 1.06 s"
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
