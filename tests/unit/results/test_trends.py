"""The trends of the overview: which runs, which values, and what could not be measured."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from brokerproof.experiment.verdict import Verdict
from brokerproof.results.history import open_history
from brokerproof.results.trends import TREND_VALUES, find_usual_range
from brokerproof.run.judgement import Judgement
from brokerproof.run.records import read_record, write_record
from builders import FAULT, SCENARIOS, make_measurement
from planted_runs import plant_run

NIGHT = datetime(2026, 1, 1, tzinfo=UTC)


def plant(directory: Path, scenario: str, night: int, **came_to: object) -> str:
    at = NIGHT + timedelta(days=night)
    file = SCENARIOS / f"{scenario}.yaml"
    run = plant_run(directory / f"{scenario}-{night}", file, at=at, **came_to)  # type: ignore[arg-type]
    with open_history(path=directory / "history.db") as history:
        history.record(run)
    return run.run_id


def test_the_last_runs_of_each_scenario_come_oldest_first_with_their_values(tmp_path: Path) -> None:
    for night in range(4):
        plant(tmp_path, "sync_datacenter_loss", night, rto_s=40.0 + night)
    plant(tmp_path, "sync_nominal", 0, verdict=Verdict.UNKNOWN, rto_s=None, lost=5)
    with open_history(path=tmp_path / "history.db") as history:
        loss, nominal = history.list_trends(per_scenario=3)
        assert [trend.scenario for trend in history.list_trends(scenarios=["sync_nominal"])] == ["sync_nominal"]
    assert [run.run_id for run in loss.runs] == [f"sync_datacenter_loss-{night}" for night in (1, 2, 3)]
    assert [run.values["rto_s"] for run in loss.runs] == [41.0, 42.0, 43.0]
    assert loss.runs[-1].values["duplicates"] == 3.0
    assert loss.runs[-1].values["publish_latency_p99_ms"] == 12.0
    assert (loss.topology, loss.system) == ("sync_active_passive", "pulsar")
    assert "datacenter" in loss.tags
    (run,) = nominal.runs
    # What could not be measured is no value, not zero.
    assert run.values["rto_s"] is None
    assert run.values["rpo_messages"] == 5.0
    assert (run.verdict, run.met) == ("failed", False)


def test_how_long_clients_were_interrupted_has_a_trend(tmp_path: Path) -> None:
    file = SCENARIOS / "sync_datacenter_loss.yaml"
    run = plant_run(tmp_path / "run", file, at=NIGHT)
    judged = read_record(run, Judgement)
    assert judged is not None
    row = make_measurement(run.run_id, "unavailable_s", 3.0)
    write_record(run, judged.model_copy(update={"measurements": (*judged.measurements, row)}))
    with open_history(path=tmp_path / "history.db") as history:
        history.record(run)
        (trend,) = history.list_trends()
    assert trend.runs[0].values["unavailable_s"] == 3.0


def test_a_run_is_found_by_its_id_alone(tmp_path: Path) -> None:
    run_id = plant(tmp_path, "sync_nominal", 0)
    with open_history(path=tmp_path / "history.db") as history:
        place = history.find_run_place(run_id)
        assert place is not None
        assert (place.scenario, place.run_dir) == ("sync_nominal", str(tmp_path / run_id))
        assert history.find_run_place("nobody") is None


def test_a_change_that_stays_is_marked_where_it_is_recorded_and_outside_the_usual_range(tmp_path: Path) -> None:
    run_id = ""
    for night in range(23):
        run_id = plant(tmp_path, "sync_datacenter_loss", night, rto_s=60.0 if night >= 18 else 50.0 + night % 3 * 0.1)
    with open_history(path=tmp_path / "history.db") as history:
        (trend,) = history.list_trends()
        place = history.find_run_place(run_id)
    assert [sorted(run.worse) for run in trend.runs[:18]] == [[]] * 18
    assert sorted(trend.runs[-1].worse) == [("longest_ack_gap_s", FAULT), ("rto_s", FAULT)]
    assert trend.runs[-1].worse["rto_s", FAULT].startswith("rto_s of planted_fault is 60 s, usually 50.1 ")
    usual = find_usual_range(trend.runs, TREND_VALUES[0])
    assert usual is not None
    assert usual[0] < 50 < usual[1] < 60
    assert place is not None
    assert [reason.split(" ")[0] for reason in place.worse] == ["rto_s", "longest_ack_gap_s"]


def test_two_faults_whose_times_got_worse_are_both_named(tmp_path: Path) -> None:
    slow, faults = 60.0, ("kill_eu", "kill_us")
    with open_history(path=tmp_path / "history.db") as history:
        for night in range(23):
            run = plant_run(
                tmp_path / f"run-{night}", SCENARIOS / "sync_datacenter_loss.yaml", at=NIGHT + timedelta(days=night)
            )
            judged = read_record(run, Judgement)
            assert judged is not None
            value = slow if night >= 18 else 50.0
            rows = [make_measurement(run.run_id, "rto_s", value, subject=fault) for fault in faults]
            # The trend of this metric is that of the steady phase, which does not get worse.
            rows.append(make_measurement(run.run_id, "publish_latency_p99_ms", 100 * value, subject="impact"))
            rows.append(make_measurement(run.run_id, "publish_latency_p99_ms", 12.0, subject="steady"))
            write_record(run, judged.model_copy(update={"measurements": tuple(rows)}))
            history.record(run)
        (trend,) = history.list_trends()
    last = trend.runs[-1]
    assert [sentence.partition(" is ")[0] for sentence in last.worse.values()] == [
        "rto_s of kill_eu", "rto_s of kill_us", "publish_latency_p99_ms of impact",
    ]  # fmt: skip
    assert [value.name for value in TREND_VALUES if last.is_worse(value)] == ["rto_s"]


def test_a_usual_range_needs_enough_runs(tmp_path: Path) -> None:
    for night in range(4):
        plant(tmp_path, "sync_nominal", night)
    with open_history(path=tmp_path / "history.db") as history:
        (trend,) = history.list_trends()
    assert find_usual_range(trend.runs, TREND_VALUES[0]) is None
