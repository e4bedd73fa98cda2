"""The history on a terminal, and as JSON."""

from __future__ import annotations

import io
import json

import pytest
from brokerproof.reports.history_view import list_plain_runs, print_history
from brokerproof.run.records import StepProblem, write_record
from rich.console import Console

FAULT = "kill_us"


@pytest.fixture
def rendered(sqlite_history):
    """Returns the history as it is printed on a terminal of some width."""

    def render(*scenarios, limit=20, width=120):
        out = io.StringIO()
        print_history(sqlite_history, scenarios, limit, Console(file=out, width=width, color_system=None))
        return out.getvalue()

    return render


def measured(rto):
    """The four measurements that the table shows."""
    return {
        ("rto_s", FAULT): rto,
        ("rto_s", "kill_bookie"): 0.2,
        ("rpo_messages", FAULT): 1234.0,
        ("rpo_s", FAULT): 2.5,
        ("longest_ack_gap_s", FAULT): 51.5,
    }


@pytest.mark.parametrize("scenarios", [(), ("kill_region",)])
def test_an_empty_history_prints_how_to_make_a_run(rendered, scenarios):
    said = rendered(*scenarios)

    assert "No run is recorded yet" in said
    assert f"brokerproof run {scenarios[0] if scenarios else 'SCENARIO'}" in said
    assert "brokerproof scenarios" in said


def test_a_scenario_without_runs_offers_the_nearest_name(rendered, plant, judgement, sqlite_history):
    sqlite_history.record(plant(judged=judgement()))

    said = rendered("kill_regoin")

    assert "No run of kill_regoin is recorded; did you mean `kill_region`?" in said


def test_losses_with_a_destroyed_cluster_are_shown_apart_from_illegal_losses(
    rendered, plant, judgement, sqlite_history
):
    sqlite_history.record(plant(judged=judgement("passed", legal={"lost": 15421})))

    lines = rendered().splitlines()

    at = next(number for number, line in enumerate(lines) if "2026-01-01" in line)
    assert lines[at].split()[4:7] == ["passed", "990", "0"]
    assert lines[at + 1].split() == ["+15,421"]
    assert any(line.startswith("lost +n: ") for line in lines)


def test_a_line_shows_the_result_of_a_run(rendered, plant, judgement, sqlite_history):
    sqlite_history.record(
        plant(judged=judgement("failed", failed=("completeness",), illegal={"lost": 1234}, measured=measured(52.25)))
    )

    line = next(line for line in rendered().splitlines() if "2026-01-01 00:00" in line)

    assert line.split() == [
        "2026-01-01", "00:00", "kill_region", "✗", "failed", "expected", "passed",
        "990", "1,234", "52.2", "1,234", "2.5", "51.5", "130",
    ]  # fmt: skip


def test_a_control_that_failed_as_it_must_is_shown_as_expected(rendered, plant, judgement, sqlite_history):
    sqlite_history.record(
        plant(
            judged=judgement("failed", failed=("completeness",), illegal={"lost": 3}),
            changes={"expect": {"verdict": "failed", "at_least": {"lost": 1}}},
        )
    )

    assert "✓ failed as expected" in rendered()


def test_a_number_that_does_not_exist_is_not_shown_as_zero(rendered, plant, sqlite_history):
    sqlite_history.record(plant())

    line = next(line for line in rendered().splitlines() if "2026-01-01 00:00" in line)

    assert line.split()[-7:] == ["–"] * 6 + ["130"]


def test_a_metric_that_one_fault_lacks_has_no_worst_value(rendered, plant, judgement, sqlite_history):
    sqlite_history.record(plant(judged=judgement(measured={("rto_s", FAULT): None, ("rto_s", "kill_bookie"): 0.2})))

    assert list_plain_runs(sqlite_history, (), 1)[0]["measurements"][0]["value"] is None
    assert "0.2" not in rendered()


def test_a_regression_is_shown_with_its_reason_and_the_changed_versions(rendered, plant, judgement, sqlite_history):
    for index in range(5):
        sqlite_history.record(plant(f"r{index}", judged=judgement(measured=measured(52.0)), minutes=index))
    sqlite_history.record(
        plant("r5", judged=judgement(measured=measured(75.0)), minutes=5, changes={"version": "4.1.0"})
    )

    said = rendered()

    assert next(line for line in said.splitlines() if "00:05" in line).rstrip().endswith("△ 1")
    assert "△ rto_s of kill_us is 75 s, usually 52 ± 0 s (median of 5 comparable runs); a mark needs 17 " in said
    assert "changed since the run before: pulsar 4.0.8 → 4.1.0" in said
    assert (said.count("△"), said.count("▲")) == (2, 0)
    [suspicion] = list_plain_runs(sqlite_history, (), 1)[0]["regressions"]["suspicions"]
    assert (suspicion["metric"], suspicion["value"], suspicion["usual"]) == ("rto_s", 75.0, 52.0)


def test_a_mark_is_shown_with_its_reason(rendered, plant, judgement, sqlite_history):
    sqlite_history.record(plant("r0", judged=judgement()))
    sqlite_history.record(plant("r1", judged=judgement("failed", failed=("ordering",)), minutes=1))

    said = rendered()

    assert next(line for line in said.splitlines() if "00:01" in line).rstrip().endswith("▲ 1")
    assert "▲ the verdict is failed (expected passed) and was passed (as expected) in r0" in said


def test_a_note_says_that_there_is_too_little_history(rendered, plant, judgement, sqlite_history):
    sqlite_history.record(plant(judged=judgement(measured=measured(52.0))))

    assert "measurements are not compared: 0 comparable judged runs before it, 5 needed" in rendered()


def test_the_newest_run_comes_first_and_the_limit_holds(rendered, plant, judgement, sqlite_history):
    for index in range(4):
        sqlite_history.record(plant(f"r{index}", judged=judgement(), minutes=index))

    times = [line.split()[1] for line in rendered("kill_region", limit=2).splitlines() if "✓" in line]

    assert times == ["00:03", "00:02"]


def test_every_number_can_be_read_on_80_columns(rendered, plant, judgement, sqlite_history):
    sqlite_history.record(plant(judged=judgement(measured=measured(52.25))))

    said = rendered(width=80)

    assert "…" not in said
    numbers = ("990", "52.2", "1,234", "2.5", "51.5", "130")
    assert [number for number in numbers if number in said] == list(numbers)


def test_names_are_no_markup(rendered, plant, judgement, sqlite_history):
    run = plant(judged=judgement("unknown"))
    write_record(run, StepProblem(step="load", problem="[red]no[/red] answer from [br-us]"))
    sqlite_history.record(run)

    assert "[red]no[/red] answer from [br-us]" in rendered()


def test_json_holds_plain_values(plant, judgement, sqlite_history):
    sqlite_history.record(plant("r0", judged=judgement(measured=measured(52.0))))
    sqlite_history.record(
        plant(
            "r1",
            judged=judgement("failed", failed=("ordering",), illegal={"lost": 2}, legal={"delivered_twice": 3}),
            minutes=1,
        )
    )

    newest, oldest = json.loads(json.dumps(list_plain_runs(sqlite_history, ["kill_region"], 20)))

    assert (newest["run_id"], newest["verdict"], newest["expected"], newest["met"]) == ("r1", "failed", "passed", False)
    assert newest["started_at"] == "2026-01-01T00:01:00+00:00"
    assert newest["counts"]["acked"] == 990
    assert (newest["counts"]["illegal"], newest["counts"]["legal"]) == ({"lost": 2}, {"delivered_twice": 3})
    assert [mark["metric"] for mark in newest["regressions"]["marks"]] == ["verdict"]
    assert newest["seconds"] == {"total": 130.5, "phases": 100.0, "overhead": 30.5}
    assert {(row["metric"], row["subject"]): row["value"] for row in oldest["measurements"]} == measured(52.0)


def test_json_without_runs_is_an_empty_list(sqlite_history):
    assert list_plain_runs(sqlite_history, (), 20) == []


TUNED = {"settings": {"broker": {"session_ms": 8000}}}


def test_runs_with_other_settings_name_the_command_that_compares_them(rendered, plant, judgement, sqlite_history):
    for index, changes in enumerate(({}, {}, TUNED)):
        assert "These runs differ" not in rendered("kill_region")
        sqlite_history.record(plant(f"r{index}", judged=judgement(), minutes=index, changes=changes))

    command = "brokerproof history kill_region --by settings"
    assert f"These runs differ in their settings: {command}" in rendered("kill_region", width=80)
    # Runs of all scenarios always differ.
    assert "These runs differ" not in rendered()
