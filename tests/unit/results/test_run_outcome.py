"""The outcome of a run is `met` only if all its evidence is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from brokerproof.checks import load_scenario
from brokerproof.commands.output import derive_exit_status
from brokerproof.errors import RunError
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.experiment.topology import Topology
from brokerproof.results.run_outcome import (
    collect_link_latencies,
    collect_publish_latencies,
    collect_restarts,
    compose_outcome,
)
from brokerproof.run.directory import Run
from brokerproof.run.judgement import JudgingFailure, write_judgement
from brokerproof.run.measurement import Measurement
from brokerproof.run.outcome import NodeRestarts
from brokerproof.run.records import (
    FoundRate,
    LoadRates,
    MissedRate,
    MissedRates,
    PhaseTimes,
    StepProblem,
    StepSeconds,
    write_record,
)
from builders import make_check, make_measurement, make_suite

CONTROL = {"expect": {"verdict": "failed", "at_least": {"lost": 1}, "failed_suites": ["completeness"]}}


def test_a_run_that_passed_meets_its_scenario(plant, judgement):
    result = compose_outcome(plant(judged=judgement()))

    assert (result.verdict, result.met, derive_exit_status(result)) == ("passed", True, 0)
    assert result.why == "passed, as expected; 1,000 of 1,000 acknowledged messages are stored."
    assert result.suites == dict.fromkeys(("completeness", "uniqueness", "ordering", "placement", "recovery"), "passed")


def test_the_outcome_is_json_with_every_promised_key(plant, judgement):
    run = plant(judged=judgement(legal={"delivered_twice": 12}))
    result = json.loads(compose_outcome(run).model_dump_json())

    assert {name: result[name] for name in ("run_id", "scenario", "topology", "runtime", "run_dir")} == {
        "run_id": "r1",
        "scenario": "kill_region",
        "topology": "stretched",
        "runtime": "process",
        "run_dir": run.directory,
    }
    assert result["expected"] == {"verdict": "passed", "at_least": {}, "failed_suites": []}
    assert result["counts"]["acked"] == 990
    assert set(result["counts"]["legal"]) == set(result["counts"]["illegal"]) == {str(anomaly) for anomaly in Anomaly}
    assert (result["counts"]["legal"]["delivered_twice"], result["counts"]["illegal"]["lost"]) == (12, 0)
    assert result["recovery"] == {"kill_us": {"rto_s": 52.0, "longest_ack_gap_s": 51.5}}
    assert result["report"].startswith(run.directory)


def test_the_seconds_run_from_the_trigger_to_the_verdict(plant, judgement):
    run = plant(judged=judgement())
    # Planted beside load (101 s) and verify (until 130.5 s): taking the cluster down, long after the verdict.
    write_record(run, StepSeconds(step="release", started_at=0, finished_at=2_000_000_000_000_000))

    seconds = compose_outcome(run).seconds

    assert (seconds.total, seconds.phases, seconds.overhead) == (130.5, 100.0, 30.5)
    assert (seconds.steps["load"], seconds.steps["verify"], seconds.judging) == (101.0, 25.5, {"read": 1.5})


def test_a_damaged_time_of_a_step_is_left_out(plant, judgement):
    run = plant(judged=judgement())
    Path(run.path("state", "step_seconds-load.json")).write_text('{"started_')

    result = compose_outcome(run)

    assert (result.met, result.seconds.steps["load"]) == (True, None)


def test_a_run_that_failed_against_its_expectation_exits_with_1(plant, judgement):
    result = compose_outcome(plant(judged=judgement("failed", failed=("completeness",), illegal={"lost": 7})))

    assert (result.verdict, result.met, derive_exit_status(result)) == ("failed", False, 1)
    assert result.why.startswith("failed instead of passed; suite completeness failed; ")


def test_a_control_needs_the_verdict_the_anomalies_and_the_failed_suites(plant, judgement):
    result = compose_outcome(
        plant(judged=judgement("failed", failed=("completeness",), illegal={"lost": 7}), changes=CONTROL)
    )

    assert (result.verdict, result.met, derive_exit_status(result)) == ("failed", True, 0)
    assert "lost was found 7 times; suite completeness failed" in result.why


@pytest.mark.parametrize(
    ("planted", "reason"),
    [
        pytest.param({"verdict": "passed"}, "passed instead of failed", id="it passed"),
        pytest.param(
            {"verdict": "failed", "failed": ("completeness",)},
            "lost was found 0 times, expected at least 1",
            id="lost is 0",
        ),
        pytest.param(
            {"verdict": "failed", "failed": ("ordering",), "illegal": {"lost": 7}},
            "suite completeness had to fail and is passed",
            id="another suite failed",
        ),
    ],
)
def test_a_control_without_the_expected_anomaly_or_suite_is_not_met(plant, judgement, planted, reason):
    result = compose_outcome(plant(judged=judgement(**planted), changes=CONTROL))

    assert (result.met, derive_exit_status(result)) == (False, 1)
    assert reason in result.why


def add_suite(judged: dict[str, Any], verdict: str) -> dict[str, Any]:
    """A judgement with a user's suite."""
    judged["suites"]["mine"] = judged["suites"]["ordering"] | {"verdict": verdict, "expectations": []}
    return judged


@pytest.mark.parametrize("verdict", ["failed", "unknown"])
def test_a_users_suite_decides_the_verdict_and_is_named(plant, judgement, verdict):
    result = compose_outcome(plant(judged=add_suite(judgement(), verdict)))

    assert (result.verdict, result.met, result.suites["mine"]) == (verdict, False, verdict)


def test_an_unknown_suite_has_its_reason_in_a_run_that_failed(plant, judgement):
    judged = add_suite(judgement("failed", failed=("ordering",)), "unknown")
    judged["suites"]["mine"]["why"] = "why of mine."
    assert compose_outcome(plant(judged=judged)).unknown_suites == {"mine": "why of mine."}


def test_the_other_unknown_expectations_of_a_suite_are_counted(plant, judgement):
    judged = add_suite(judgement(), "unknown")
    check = judged["suites"]["ordering"]["expectations"][0] | {"verdict": "unknown"}
    judged["suites"]["mine"]["why"] = "`a` is broken; unknown too: b, c."
    judged["suites"]["mine"]["expectations"] = [{**check, "name": name} for name in "abc"]
    assert compose_outcome(plant(judged=judged)).unknown_suites == {"mine": "`a` is broken (and 2 more)"}


def test_a_control_may_expect_that_a_users_suite_fails(plant, judgement):
    control = {"expect": {"verdict": "failed", "failed_suites": ["mine"]}}

    met = compose_outcome(plant(judged=add_suite(judgement("failed"), "failed"), changes=control))
    assert met.met
    assert "suite mine failed" in met.why


@pytest.mark.parametrize(("verdict", "was"), [("passed", "passed"), (None, "not judged")])
def test_a_control_whose_users_suite_did_not_fail_is_not_met(plant, judgement, verdict, was):
    control = {"expect": {"verdict": "failed", "failed_suites": ["mine"]}}
    judged = judgement("failed", failed=("ordering",))

    result = compose_outcome(plant(judged=add_suite(judged, verdict) if verdict else judged, changes=control))
    assert not result.met
    assert f"suite mine had to fail and is {was}" in result.why


def make_inapplicable(judged, suite):
    """Have nothing of a suite apply."""
    content = judged["suites"][suite] | {"verdict": "not_applicable", "evaluated": 0, "written": 0}
    content["expectations"] = [
        {**check, "verdict": "not_applicable", "why": "log cannot say where copies are"}
        for check in content["expectations"]
    ]
    judged["suites"][suite] = content
    return judged


def test_a_suite_that_does_not_apply_hinders_nothing_and_its_reason_is_reported(plant, judgement):
    result = compose_outcome(plant(judged=make_inapplicable(judgement(), "placement")))

    assert (result.verdict, result.met, derive_exit_status(result)) == ("passed", True, 0)
    assert result.suites["placement"] == "not_applicable"
    assert result.not_applicable == {"expect_placement": "log cannot say where copies are"}


def test_a_suite_that_does_not_apply_is_no_reason_to_fail(plant, judgement):
    result = compose_outcome(plant(judged=make_inapplicable(judgement("failed", failed=["ordering"]), "placement")))

    assert result.verdict == "failed"
    assert "suite ordering failed" in result.why
    assert "placement" not in result.why


def test_legal_anomalies_count_for_the_expected_minimum(plant, judgement):
    bounds = {"missing_messages": {"max": 9}}
    expects = {"guarantee": "at_most_once", "bounds": bounds, "expect": {"verdict": "passed", "at_least": {"lost": 5}}}

    assert compose_outcome(plant("enough", judged=judgement(legal={"lost": 5}), changes=expects)).met
    assert not compose_outcome(plant("too_few", judged=judgement(legal={"lost": 4}), changes=expects)).met


def test_without_a_judgement_the_verdict_is_unknown_and_nothing_was_counted(plant):
    result = compose_outcome(plant())

    assert (result.verdict, result.met, derive_exit_status(result)) == ("unknown", False, 2)
    assert "left no judgement" in result.why
    assert (result.counts["acked"], result.counts["illegal"]["lost"]) == (None, None)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param('{"verdict": "pas', "damaged", id="half a file"),
        pytest.param("[]", "damaged", id="not an object"),
        pytest.param('{"version": 1, "verdict": "passed"}', "damaged: `why` is missing", id="no evidence"),
        pytest.param("\x00\xff", "damaged", id="not text"),
    ],
)
def test_a_damaged_judgement_is_unknown(plant, judgement, content, reason):
    run = plant(judged=judgement())
    Path(run.path("state", "judgement.json")).write_bytes(content.encode("latin-1"))

    result = compose_outcome(run)

    assert (result.verdict, result.met, derive_exit_status(result)) == ("unknown", False, 2)
    assert reason in result.why


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param(("verdict",), "fine", id="no such verdict"),
        pytest.param(("counts", "acked"), -1, id="a negative count"),
        pytest.param(("counts", "acked"), None, id="a count left out"),
        pytest.param(("counts", "illegal"), {"mislaid": 3}, id="no such anomaly"),
        pytest.param(("suites", "ordering", "written"), "many", id="not a number"),
    ],
)
def test_one_wrong_value_damages_the_judgement(plant, judgement, field, value):
    planted = judgement()
    at = planted
    for name in field[:-1]:
        at = at[name]
    at[field[-1]] = value

    result = compose_outcome(plant(judged=planted))

    assert (result.verdict, result.met) == ("unknown", False)
    assert f"damaged: `{'.'.join(field)}" in result.why


def test_the_reason_of_a_verify_that_could_not_judge_is_shown(plant):
    run = plant()
    write_judgement(run, JudgingFailure(why="The run could not be judged: no Java", error="…"))

    result = compose_outcome(run)

    assert (result.verdict, result.met) == ("unknown", False)
    assert result.why == "unknown instead of passed; The run could not be judged: no Java."


def test_a_run_without_messages_is_no_data_and_not_unknown(plant, judgement):
    planted = judgement("no_data")
    for suite in planted["suites"].values():
        suite.update(verdict="no_data", evaluated=0, written=4, expectations=[])

    result = compose_outcome(plant(judged=planted))

    assert (result.verdict, result.met, derive_exit_status(result)) == ("no_data", False, 2)


def test_judging_a_run_again_does_not_make_it_longer(plant, judgement):
    run = plant(judged=judgement())
    # What `record` leaves.
    write_record(run, compose_outcome(run))
    day_later = run.facts.triggered_at + 86_400_000_000
    write_record(run, StepSeconds(step="verify", started_at=day_later, finished_at=day_later + 9_000_000))

    assert compose_outcome(run).seconds.total == 130.5


def test_the_judgement_of_another_run_is_refused(plant, judgement):
    planted = judgement(measured={("rto_s", "kill_us"): 52.0})
    planted["measurements"][0]["run_id"] = "r0"

    result = compose_outcome(plant(judged=planted))

    assert (result.verdict, result.met) == ("unknown", False)
    assert "another run: r0" in result.why


@pytest.mark.parametrize(
    ("spoil", "verdict", "reason"),
    [
        pytest.param(
            lambda j: j["suites"].pop("ordering"), "unknown", "suite ordering was not judged", id="a suite is missing"
        ),
        pytest.param(
            lambda j: j["suites"]["ordering"].update(evaluated=3, written=4),
            "unknown",
            "suite ordering passed with 3 of its 4 expectations evaluated",
            id="an expectation was dropped",
        ),
        pytest.param(
            lambda j: j["suites"]["ordering"].update(verdict="failed"), "failed", "failed instead", id="a suite failed"
        ),
        pytest.param(
            lambda j: j["suites"]["ordering"]["expectations"][0].update(verdict="unknown"),
            "unknown",
            "unknown instead",
            id="an expectation is unknown",
        ),
        pytest.param(
            lambda j: j["counts"]["illegal"].update(lost=2), "unknown", "counts 2 illegal lost", id="it counts a loss"
        ),
        pytest.param(
            lambda j: j["counts"]["legal"].update(unproven=2), "unknown", "counts 2 unproven", id="it is unproven"
        ),
    ],
)
def test_a_judgement_that_contradicts_its_passed_does_not_pass(plant, judgement, spoil, verdict, reason):
    planted = judgement()
    spoil(planted)

    result = compose_outcome(plant(judged=planted))

    assert (result.verdict, result.met) == (verdict, False)
    assert reason in result.why


def test_a_step_that_failed_makes_a_passed_run_unknown(plant, judgement):
    run = plant(judged=judgement())
    write_record(run, StepProblem(step="break_it", problem="kill_us took no effect: br-us is alive."))

    result = compose_outcome(run)

    assert (result.verdict, result.met, derive_exit_status(result)) == ("unknown", False, 2)
    assert "step break_it failed: kill_us took no effect: br-us is alive" in result.why


def test_a_step_that_failed_leaves_a_control_unmet(plant, judgement):
    run = plant(judged=judgement("failed", failed=("completeness",), illegal={"lost": 7}), changes=CONTROL)
    write_record(run, StepProblem(step="break_it", problem="bk-us did not stop"))

    result = compose_outcome(run)

    assert (result.verdict, result.met, derive_exit_status(result)) == ("failed", False, 1)
    assert "does not prove it; step break_it failed: bk-us did not stop" in result.why


def test_a_problem_record_that_cannot_be_read_is_a_problem(plant, judgement):
    run = plant(judged=judgement())
    Path(run.path("state", "step_problem-load.json")).write_text("")

    result = compose_outcome(run)

    assert result.verdict == "unknown"
    assert "step load failed" in result.why


@pytest.mark.parametrize("judged", [True, False])
def test_only_a_judgement_can_meet_the_expectation_of_unknown(plant, judgement, judged):
    run = plant(judged=judgement("unknown") if judged else None, changes={"expect": {"verdict": "unknown"}})

    result = compose_outcome(run)

    assert result.verdict == "unknown"
    assert (result.met, derive_exit_status(result)) == ((True, 0) if judged else (False, 2))


def test_no_data_exits_with_2(plant, judgement):
    result = compose_outcome(plant(judged=judgement("no_data")))

    assert (result.verdict, derive_exit_status(result)) == ("no_data", 2)


def test_an_infinite_measurement_counts_as_not_measured(plant, judgement):
    planted = judgement()
    planted["recovery"]["kill_us"]["rto_s"] = float("nan")

    assert compose_outcome(plant(judged=planted)).recovery["kill_us"]["rto_s"] is None


def test_the_bounds_in_force_are_the_scenarios_or_else_the_tightest_of_the_suites(plant, judgement):
    planted = judgement()
    values = {"rto_s": 52.0, "detect_s": 2.0, "first_ack_s": 3.0}
    planted["measurements"] = [
        make_measurement("", name, value, subject="kill_us", maximum=90.0 if name == "rto_s" else None).model_dump(
            mode="json"
        )
        for name, value in values.items()
    ]
    for suite, maximum in (("recovery", None), ("mine", 9.0), ("yours", 8.0)):
        checks = [make_check(name, maximum=maximum) for name in ("rto_s", "detect_s")]
        planted["suites"][suite] = make_suite("passed", *checks).model_dump(mode="json")

    assert compose_outcome(plant(judged=planted)).bounds == {
        "kill_us": {"rto_s": (None, 90.0), "detect_s": (None, 8.0)}
    }


def test_what_has_no_value_has_its_reason(plant, judgement):
    planted = judgement()
    planted["recovery"]["kill_us"] |= {"agree_s": None, "rto_s": None}
    planted["measurements"] = [
        make_measurement("", "agree_s", None, subject="kill_us", evidence="no replication was sampled"),
        make_measurement("", "rto_s", None, subject="kill_us", at_least=61.5, evidence="never seen to end"),
        make_measurement("", "local_read_share", None, subject="steady", evidence="nothing was read"),
    ]
    planted["measurements"] = [row.model_dump(mode="json") for row in planted["measurements"]]

    assert compose_outcome(plant(judged=planted)).unmeasured == {
        "kill_us": {"agree_s": "no replication was sampled", "rto_s": "at least 61.5 s: never seen to end"}
    }


def test_why_is_one_line(plant, judgement):
    run = plant(judged=judgement())
    write_record(run, StepProblem(step="load", problem="first line\n  second line\n"))

    assert "step load failed: first line second line" in compose_outcome(run).why


def test_a_directory_without_a_run_is_refused(tmp_path):
    with pytest.raises(RunError, match=r"run\.json is missing"):
        compose_outcome(Run(str(tmp_path)))


ROOT = Path(__file__).parents[3]


def scenario(name: str):
    return load_scenario(ROOT / f"dags/scenarios/{name}.yaml", ROOT / "topologies")[0]


def measured(**values: float | None) -> list[Measurement]:
    subjects = {name.replace("__", "/"): value for name, value in values.items()}
    return [
        make_measurement("r", metric, value and value * factor, subject=subject)
        for metric, factor in (("publish_latency_p50_ms", 1), ("publish_latency_p99_ms", 2))
        for subject, value in subjects.items()
    ]


def test_link_latencies_are_collected_by_way() -> None:
    rows = [
        make_measurement("r", "link_added_p50_ms", 0.1, subject="eu>us/at_5_ms"),
        make_measurement("r", "link_added_p99_ms", 4.0, subject="eu>us/at_5_ms"),
        make_measurement("r", "link_added_p99_ms", 9.0, subject="us>eu/impact"),
    ]
    assert collect_link_latencies(scenario("sync_write_latency"), rows) == {
        "at_5_ms": {"eu>us": {"p50_ms": 0.1, "p99_ms": 4.0}}
    }
    assert collect_link_latencies(scenario("sync_datacenter_loss"), rows) == {}


def test_publish_latencies_are_collected_by_cluster() -> None:
    found = collect_publish_latencies(
        scenario("sync_write_latency"),
        [
            *measured(steady=3, steady__stretched=4.0, steady__local=2.0, at_5_ms__stretched=14.0, impact__local=9),
            make_measurement("r", "rto_s", 0, subject="at_5_ms"),
        ],
    )
    assert found["steady"] == {"stretched": {"p50_ms": 4.0, "p99_ms": 8.0}, "local": {"p50_ms": 2.0, "p99_ms": 4.0}}
    assert found["at_5_ms"] == {"stretched": {"p50_ms": 14.0, "p99_ms": 28.0}}
    assert found["at_50_ms"] == {}
    assert "impact" not in found


def test_a_scenario_without_a_slowing_fault_has_no_latencies() -> None:
    assert collect_publish_latencies(scenario("sync_datacenter_loss"), measured(steady=3)) == {}


# 2026-01-01T00:31:07Z
AT = 1_767_227_467_000_000
EVENTS = [
    ("bk-us", "ended", 20),
    ("bk-eu", "ended", 0),
    ("bk-eu", "restarted", 10),
    ("bk-eu", "ended", 40),
    ("bk-eu", "restarted", 50.2),
]
FOUND = (
    NodeRestarts(node="bk-eu", ended=2, restarted=2, first_ended_at=AT, first_restarted_at=AT + 10_000_000),
    NodeRestarts(node="bk-us", ended=1, restarted=0, first_ended_at=AT + 20_000_000, first_restarted_at=None),
)


@pytest.fixture
def run(tmp_path: Path, scenario, topology: Topology) -> Run:
    """A run whose bookies have service managers."""
    content = topology.model_dump(mode="json") | {"restart": {"bookie": {"after_s": 10}}}
    return Run.create(str(tmp_path / "run"), run_id="r", scenario=scenario(), topology=Topology.model_validate(content))


def plant_events(run: Run) -> None:
    rows = [
        {"run_id": "r", "at": AT + int(after_s * 1e6), "source": f"service_manager:{node}", "metric": metric}
        for node, metric, after_s in EVENTS
    ]
    # Another kind of source may use the same word.
    run.append("observations", [*rows, {"run_id": "r", "at": AT, "source": "node:bk-eu", "metric": "ended"}])


def test_each_node_that_ended_is_counted_in_the_order_of_time(run: Run) -> None:
    plant_events(run)
    assert collect_restarts(run) == FOUND
    assert compose_outcome(run).restarts == FOUND


def test_a_run_without_events_has_none(run: Run) -> None:
    assert collect_restarts(run) == ()


def test_a_table_that_is_damaged_hides_no_outcome(run: Run) -> None:
    plant_events(run)
    for file in Path(run.table("observations")).iterdir():
        file.write_text("no Parquet")
    assert compose_outcome(run).restarts == ()


def test_the_outcome_names_missed_rates_and_their_measured_reasons(plant, judgement):
    run = plant(judged=judgement())
    steady = 1_700_000_000_000_000
    write_record(run, PhaseTimes(steady_at=steady, impact_at=steady, recovery_at=steady, ends_at=steady))

    def miss(after_s, seconds, **measured):
        begin = steady + after_s * 1_000_000
        figures = {"due": 1000, "acked": 500, "pushed_back_s": 0.0, "no_time_s": 0.0, **measured}
        return MissedRate(begin=begin, end=begin + seconds * 1_000_000, **figures)

    before = miss(-9, 5, pushed_back_s=5.0)
    times = (before, miss(1, 20, pushed_back_s=20.0, contended_s=3.0), miss(30, 4, no_time_s=4.0), miss(40, 2))
    write_record(run, MissedRates(process="mycluster-p0-0", times=times, at=steady))
    write_record(run, MissedRates(process="mycluster-p1-0", times=(before,), at=steady))

    assert compose_outcome(run).notes == (
        "mycluster-p0 missed its rate 3 times, for 26.0 s in all: the cluster pushed back for 20.0 s, this machine had "
        "no time for 4 s and the reason is unknown for 2 s. The longest time began at 22:13:21 and lasted 20.0 s, with "
        "500 of 1,000 due messages acked; in 3 s of it, a program of this machine waited for a processor.",
    )


@pytest.mark.parametrize(
    ("after_s", "measured", "is_named"),
    [(-1, "pushed_back_s", False), (5, "pushed_back_s", False), (-8, "pushed_back_s", True), (5, "no_time_s", True)],
)
def test_a_cluster_that_pushes_back_after_a_fault_is_no_note(plant, judgement, after_s, measured, is_named):
    run = plant(judged=judgement())
    fault_at = 1_700_000_000_000_000
    row = {"run_id": run.run_id, "fault": "kill_us", "kind": "kill", "targets": ["b"], "detail": ""}
    run.append("faults", [{**row, "state": "injecting", "at": fault_at}])
    figures = {"due": 1000, "acked": 0, "pushed_back_s": 0.0, "no_time_s": 0.0, measured: 4.0}
    begin = fault_at + after_s * 1_000_000
    times = (MissedRate(begin=begin, end=begin + 4_000_000, **figures),)
    write_record(run, MissedRates(process="p-0", times=times, at=begin))
    assert any("missed its rate" in note for note in compose_outcome(run).notes) is is_named


def test_a_damaged_record_of_missed_rates_is_named(plant, judgement):
    run = plant(judged=judgement())
    run.write_text("state/missed_rates-p0-0.json", "{}")
    (note,) = compose_outcome(run).notes
    assert note.startswith("Whether the producers held their rates is not known: ")


@pytest.mark.parametrize(
    ("missed", "busy", "why"),
    [
        (
            45_000,
            97.0,
            "45,000 were not, with this machine's processors 97 % busy, so a machine with more of them ",
        ),
        (45_000, 40.0, "45,000 were not, although this machine's processors were only 40 % busy. The run kept 35,500 "),
        (None, None, "each higher rate that was tried later was held too, or the time for the search was over. The "),
    ],
)
def test_the_outcome_names_the_rate_that_the_load_found_and_its_limit(plant, judgement, missed, busy, why):
    run = plant(judged=judgement(), changes={"workload": {"namespace": "shop/orders", "rate": "max"}})
    assert compose_outcome(run).notes == ()
    found = FoundRate(rate=35_500, held=40_000, missed=missed, busy=busy)
    write_record(run, LoadRates(steps=(), found=found, at=1))
    (note,) = compose_outcome(run).notes
    assert note.startswith(f"The load was to find the highest rate: 40,000 messages/s were held, and {why}")


def test_a_damaged_record_of_the_found_rate_is_named(plant, judgement):
    run = plant(judged=judgement())
    run.write_text("state/load_rates.json", "{}")
    (note,) = compose_outcome(run).notes
    assert note.startswith("The rate that the load found is not known: ")
