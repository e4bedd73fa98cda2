"""Campaigns: runs that one plan started."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from brokerproof.orchestration.dag_run import derive_run_id, make_run_id
from brokerproof.reports.overview_page import render_campaign, render_campaigns, write_headline
from brokerproof.reports.pages import Page
from brokerproof.results.history import open_history
from builders import SCENARIOS
from planted_runs import plant_run

NIGHT = datetime(2026, 1, 1, 1, tzinfo=UTC)


def plant(directory: Path, scenario: str, run_id: str, at: datetime, lost: int = 0) -> None:
    run = plant_run(directory / run_id, SCENARIOS / f"{scenario}.yaml", at=at, lost=lost)
    with open_history(path=directory / "history.db") as history:
        history.record(run)


def test_the_runs_of_one_plan_are_one_campaign_and_the_last_try_of_each_counts(tmp_path: Path) -> None:
    for night in range(2):
        planned = NIGHT + timedelta(days=night)
        for number, scenario in enumerate(("sync_nominal", "sync_bookie_loss")):
            run_id = make_run_id(scenario, planned, "campaign")
            plant(tmp_path, scenario, run_id, planned + timedelta(minutes=number), lost=7 * night * number)
    # Somebody cleared the run that lost messages, and by hand another one was started.
    again = derive_run_id("sync_bookie_loss", make_run_id("sync_bookie_loss", NIGHT + timedelta(days=1), "campaign"), 2)
    plant(tmp_path, "sync_bookie_loss", again, NIGHT + timedelta(days=1, hours=1), lost=9)
    plant(tmp_path, "sync_nominal", make_run_id("sync_nominal", NIGHT, "1a2b"), NIGHT + timedelta(days=9))
    # The campaign of the first night repeated a scenario.
    repeated = make_run_id("sync_nominal", NIGHT, "campaign_2")
    plant(tmp_path, "sync_nominal", repeated, NIGHT + timedelta(hours=1))
    with open_history(path=tmp_path / "history.db") as history:
        second, first = history.list_campaigns()
        [same] = history.list_campaigns(stamp="20260101T010000Z")
        assert history.list_campaigns(stamp="%") == []
    assert [run.run_id for run in same.runs] == [run.run_id for run in first.runs]
    assert [run.scenario for run in first.runs] == ["sync_nominal", "sync_bookie_loss", "sync_nominal"]
    assert [run.run_id for run in first.runs][2] == repeated
    assert first.met
    assert write_headline(first) == "All 3 runs were as expected."
    assert [run.run_id for run in second.runs][1] == again
    assert write_headline(second) == "1 of 2 runs were not as expected: sync_bookie_loss."
    html = render_campaign(second, Page(root="../", draws=False))
    assert "<strong>not as expected</strong>" in html
    assert f'href="../runs/{again}"' in html
    listed = render_campaigns([second, first], Page(draws=False))
    assert listed.index("20260102T010000Z") < listed.index("20260101T010000Z")
