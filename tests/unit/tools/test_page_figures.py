"""The figures of the pages come from the last run that counts; a row without such a run stays and gets a star."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from brokerproof.checks import load_scenario
from brokerproof.errors import InputError
from brokerproof.experiment.guarantees import Suite
from brokerproof.results.history import open_history
from brokerproof.run.directory import Run
from brokerproof.run.records import write_record
from brokerproof.settings import Settings, from_environment
from builders import ROOT, SCENARIOS, make_counts, make_judgement, make_measurement, make_suite
from figure_tables import TABLES
from measured_runs import MeasuredRuns
from page_figures import PAGES, fill_page

from ..measured_scenarios import list_measured_scenarios

PAGE = """\
Words before.

<!-- figures: scenarios -->
| scenario | what happens | expects | acked | lost | longest ack gap | RTO | re-replicated after |
|---|---|---|---|---|---|---|---|
| `sync_bookie_loss` | a bookie goes | passed | 5 | 0 | 1.0 s | 1 s | 2.0 s |
| `sync_datacenter_loss` * | eu goes | passed | 6 | 0 | 1.0 s | 1 s | 2.0 s |

Words after.
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return from_environment({"BROKERPROOF_HOME": str(ROOT), "BROKERPROOF_VAR": str(tmp_path)})


def plant_run(
    settings: Settings,
    scenario: str,
    acked: int,
    recovery: dict[str, dict[str, float | None]],
    *,
    overrides: dict[str, Any] | None = None,
    illegal: dict[str, int] | None = None,
    legal: dict[str, int] | None = None,
    verdict: str = "passed",
    left: float | None = 0,
    lags: dict[str, float | None] | None = None,
    reached: dict[str, float] | None = None,
    **changes: Any,
) -> Run:
    """Plant a judged run; each is younger than the one before.

    `lags` has the replication lag of each direction in the last phase, which is the same for each quantile.
    """
    resolved, topology = load_scenario(settings.scenario_file(scenario), settings.topologies, overrides)
    name = f"{scenario}-{len(list(settings.runs.glob('*')))}"
    run = Run.create(
        str(settings.runs / name), run_id=name, scenario=resolved.model_copy(update=changes), topology=topology
    )
    judgement = make_judgement(
        verdict,
        suites=dict.fromkeys(Suite, make_suite(verdict)),
        counts=make_counts(acked, illegal=illegal, legal=legal),
        recovery=recovery,
        measurements=[
            make_measurement(name, "under_replicated_segments", left, subject="end_of_run"),
            *(
                make_measurement(name, f"replication_lag_{quantile}_ms", value, subject=f"{way}/recovery")
                for way, value in (lags or {}).items()
                for quantile in ("p50", "p99", "max")
            ),
            *(make_measurement(name, "reached", times, subject=state) for state, times in (reached or {}).items()),
        ],
    )
    write_record(run, judgement)
    return run


def fault(**values: float | None) -> dict[str, float | None]:
    return {"longest_ack_gap_s": 50.04, "rto_s": 50.0, "rereplicate_s": 72.31, **values}


def fill_rows(settings: Settings) -> tuple[dict[str, str], list[str]]:
    """The page's rows by scenario, and the sentences about rows without a run."""
    missing: list[str] = []
    page = fill_page(PAGE, MeasuredRuns(settings), missing.append)
    assert page.startswith("Words before.\n\n<!-- figures: scenarios -->\n| scenario |")
    assert page.endswith("|\n\nWords after.\n")
    return {found[1]: found[0] for found in re.finditer(r"^\| `(\w+)`.*$", page, re.M)}, missing


def test_a_row_comes_from_the_last_run_and_keeps_its_own_words(settings: Settings) -> None:
    plant_run(settings, "sync_datacenter_loss", 1000, {"eu_destroyed": fault(rto_s=9.0)})
    plant_run(settings, "sync_datacenter_loss", 124614, {"eu_destroyed": fault()})
    found, _ = fill_rows(settings)
    assert found["sync_datacenter_loss"] == (
        "| `sync_datacenter_loss` | eu goes | passed | 124,614 | 0 | 50.0 s | 50 s | 72.3 s |"
    )


def test_a_row_without_a_run_that_counts_stays_and_gets_a_star(settings: Settings) -> None:
    plant_run(settings, "sync_bookie_loss", 7, {"b": fault()}, overrides={"workload.rate": 500})
    plant_run(settings, "sync_bookie_loss", 8, {"b": fault()}, verdict="failed")
    plant_run(settings, "sync_bookie_loss", 9, {"b": fault()}, settle_s=1)
    found, missing = fill_rows(settings)
    assert found["sync_bookie_loss"] == (
        "| `sync_bookie_loss` * | a bookie goes | passed | 5 | 0 | 1.0 s | 1 s | 2.0 s |"
    )
    assert "no run counts; make one with: brokerproof run sync_bookie_loss" in missing


def test_figures_of_another_machine_get_no_star_while_the_scenario_is_the_same(
    settings: Settings, tmp_path: Path
) -> None:
    plant_run(settings, "sync_datacenter_loss", 80, {"eu_destroyed": fault()})
    fill_page(PAGE, first := MeasuredRuns(settings), print)
    without_runs = from_environment(settings.to_environment() | {"BROKERPROOF_VAR": str(tmp_path / "elsewhere")})
    missing: list[str] = []
    page = fill_page(PAGE, MeasuredRuns(without_runs, first.recorded), missing.append)
    assert "\n| `sync_datacenter_loss` |" in page
    assert "\n| `sync_bookie_loss` * |" in page
    assert len(missing) == 1
    # The digest of another scenario, or of these files before a change, records nothing of this row.
    assert "\n| `sync_datacenter_loss` * |" in fill_page(PAGE, MeasuredRuns(without_runs, ["0" * 64]), print)


def test_a_client_that_was_still_interrupted_when_the_load_ended_has_no_known_recovery(settings: Settings) -> None:
    plant_run(settings, "sync_bookie_loss", 8, {"a": fault(), "b": fault(rto_s=None)})
    assert "| not known |" in fill_rows(settings)[0]["sync_bookie_loss"]


def test_a_scenario_that_the_page_lacks_is_added(settings: Settings) -> None:
    plant_run(settings, "sync_nominal", 40, {})
    found, _ = fill_rows(settings)
    assert list(found) == ["sync_bookie_loss", "sync_datacenter_loss", "sync_nominal"]
    assert found["sync_nominal"] == (
        "| `sync_nominal` | Nothing fails | passed | 40 | 0 | nothing fails | nothing fails | nothing fails |"
    )


def test_a_scenario_gets_no_row_from_its_control_that_differs_in_the_version_only(settings: Settings) -> None:
    control = {"version": "4.0.6", "expect": {"verdict": "passed"}}
    plant_run(settings, "metadata_restart_two_owners", 40, {}, overrides=control)
    assert "metadata_restart_two_owners" not in fill_rows(settings)[0]
    plant_run(settings, "metadata_restart_two_owners", 41, {}, overrides={"version": "4.0.4"}, verdict="failed")
    plant_run(settings, "metadata_restart_two_owners", 42, {}, overrides=control)
    assert "| 41 |" in fill_rows(settings)[0]["metadata_restart_two_owners"]


def test_a_row_shows_what_a_control_lost_and_what_was_never_repaired(settings: Settings) -> None:
    plant_run(
        settings,
        "control_blind_autorecovery",
        100,
        {
            "bookie_killed": fault(rereplicate_s=60.8, rpo_messages=70),
            "us_destroyed": fault(rereplicate_s=None, rpo_messages=77, lost_later_messages=0),
        },
        illegal={"lost": 77},
        verdict="failed",
        left=8,
    )
    found, _ = fill_rows(settings)
    assert found["control_blind_autorecovery"].endswith(
        "| failed, 1 or more `lost` | 100 | 77 | 50.0 s | 50 s | 60.8 s (`bookie_killed`), never (`us_destroyed`) |"
    )


def test_a_message_that_another_cluster_holds_is_lost_at_home_only(settings: Settings) -> None:
    plant_run(
        settings,
        "geo_datacenter_destroyed",
        100,
        {"eu_destroyed": fault(rereplicate_s=None, rpo_messages=3, lost_later_messages=0)},
        legal={"lost": 10},
    )
    found, _ = fill_rows(settings)
    assert found["geo_datacenter_destroyed"].endswith(
        "| passed | 100 | 3, and 7 at home only | 50.0 s | 50 s | nothing to copy |"
    )


def test_a_search_shows_how_many_of_its_runs_were_in_a_state_and_their_seeds(settings: Settings) -> None:
    page = "<!-- figures: searches -->\n| state | runs | seeds |\n|---|---|---|\n"
    assert fill_page(page, MeasuredRuns(settings), print) == page
    with open_history(path=settings.var / "history.db") as history:
        for seed, reached in ((3, {"sent_again": 2, "producer_fenced": 0}), (8, {"sent_again": 0})):
            history.record(
                plant_run(settings, "search_sync", 5, {}, overrides={"draw.seed": seed}, reached=dict(reached))
            )
        others = {"draw.seed": 9, "draw.at_once": 1}
        history.record(plant_run(settings, "search_sync", 5, {}, overrides=others, reached={"sent_again": 1}))
    filled = fill_page(page, MeasuredRuns(settings), print)
    assert "\n| `search_sync` sent_again | 1 of 2 | 3 |\n" in filled
    assert "\n| `search_sync` producer_fenced | 0 of 1 | – |\n" in filled
    assert "search_handover" not in filled


def test_a_search_that_drew_from_other_moves_gets_a_star(settings: Settings) -> None:
    head = "<!-- figures: searches -->\n| state | runs | seeds |\n|---|---|---|\n"
    page = head + "| `search_sync` sent_again | 1 of 2 | 3 |\n"
    values = {"reached": {"sent_again": 1}, "overrides": {"draw.seed": 3, "draw.at_once": 1}}
    with open_history(path=settings.var / "history.db") as history:
        history.record(plant_run(settings, "search_sync", 5, {}, **values))
    runs = MeasuredRuns(settings)
    assert "| `search_sync` sent_again * | 1 of 2 | 3 |\n" in fill_page(page, runs, print)
    with open_history(path=settings.var / "history.db") as history:
        history.record(plant_run(settings, "search_sync", 5, {}, overrides={"draw.seed": 4}, reached={"sent_again": 0}))
    assert "| `search_sync` sent_again | 0 of 1 | – |\n" in fill_page(page, runs, print)
    # The next machine has no such run, and the page's row comes from one all the same.
    elsewhere = MeasuredRuns(settings.model_copy(update={"var": settings.var / "other"}), runs.recorded)
    assert "| `search_sync` sent_again | 1 of 2 | 3 |\n" in fill_page(page, elsewhere, print)


def test_a_mark_of_an_unknown_table_is_refused(settings: Settings) -> None:
    with pytest.raises(InputError, match="`scenario` is no table of figures"):
        fill_page("<!-- figures: scenario -->\n| |\n|---|\n", MeasuredRuns(settings), print)


def test_the_pages_have_every_table() -> None:
    text = "".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    assert sorted(re.findall(r"<!-- figures: (\w+) -->", text)) == sorted(TABLES)


def test_the_page_shows_figures_of_shipped_scenarios_only() -> None:
    shown = list_measured_scenarios()
    assert "sync_nominal" in shown
    assert [name for name in shown if not (SCENARIOS / f"{name}.yaml").exists()] == []


def test_a_scenario_without_a_row_and_without_a_run_is_no_failure(settings: Settings) -> None:
    found, missing = fill_rows(settings)
    assert list(found) == ["sync_bookie_loss", "sync_datacenter_loss"]
    assert missing == [f"no run counts; make one with: brokerproof run {name}" for name in found]


def test_a_users_own_scenarios_have_no_row(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text((SCENARIOS / "sync_nominal.yaml").read_text())
    own = from_environment(settings.to_environment() | {"BROKERPROOF_SCENARIOS": str(tmp_path)})
    plant_run(own, "mine", 40, {})
    plant_run(settings, "sync_nominal", 41, {})
    found, _ = fill_rows(own)
    assert list(found) == ["sync_bookie_loss", "sync_datacenter_loss", "sync_nominal"]


def test_two_rows_with_the_same_label_are_refused(settings: Settings) -> None:
    page = "<!-- figures: failover -->\n| | |\n|---|---|\n| got again | 1 |\n| got again * | 2 |\n"
    with pytest.raises(InputError, match="`failover` has two rows `got again`"):
        fill_page(page, MeasuredRuns(settings), print)


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_can_be_filled(settings: Settings, page: str) -> None:
    assert fill_page((ROOT / page).read_text(encoding="utf-8"), MeasuredRuns(settings), print)


@pytest.mark.parametrize(
    ("lags", "text"),
    [
        ({"cluster-eu>cluster-us": 16, "cluster-us>cluster-eu": 1200}, "16 ms and 1.2 s"),
        ({"cluster-eu>cluster-us": 16, "cluster-us>cluster-eu": None}, "16 ms and not measured"),
        ({"cluster-eu>cluster-us": None, "cluster-us>cluster-eu": 16}, "not measured and 16 ms"),
        # Nothing was published on us.
        ({"cluster-eu>cluster-us": 16}, "16 ms"),
        ({}, "not measured"),
    ],
    ids=str,
)
def test_a_direction_whose_replication_lag_is_unknown_was_not_measured(
    settings: Settings, lags: dict[str, float | None], text: str
) -> None:
    plant_run(settings, "geo_nominal", 40, {}, lags=lags)
    assert TABLES["replication"](MeasuredRuns(settings))["`geo_nominal`"]()[:3] == [text] * 3


def test_a_figure_that_was_not_measured_is_no_zero(settings: Settings) -> None:
    unmeasured = fault(rereplicate_s=None, rpo_messages=None, rpo_s=None, lost_later_messages=2)
    plant_run(settings, "geo_datacenter_destroyed", 100, {"eu_destroyed": unmeasured}, legal={"lost": 10}, left=None)
    found, _ = fill_rows(settings)
    assert found["geo_datacenter_destroyed"].endswith("| passed | 100 | 10 | 50.0 s | 50 s | – |")
    assert TABLES["replication"](MeasuredRuns(settings))["`geo_datacenter_destroyed`"]()[-1] == "– messages, – s"
