"""Two runs side by side."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from brokerproof.reports.compare_page import render_choice, render_comparison
from brokerproof.reports.pages import Page
from brokerproof.results.history import open_history
from planted_runs import plant_run

ROOT = Path(__file__).resolve().parents[3]
NIGHT = datetime(2026, 1, 1, tzinfo=UTC)


def compare(directory: Path, **last: Any) -> str:
    """A page about the run of the last night and the one before, after nights with an RTO of about 50 s."""
    with open_history(path=directory / "history.db") as history:
        for night in range(14):
            run = plant_run(
                directory / f"run-{night}",
                ROOT / "dags/scenarios/sync_datacenter_loss.yaml",
                ROOT / "topologies",
                at=NIGHT + timedelta(days=night),
                **({"rto_s": 50.0 + night % 3 * 0.1} | (last if night == 13 else {})),
            )
            history.record(run)
        a, b = history.find_run("run-12"), history.find_run("run-13")
        assert a is not None
        assert b is not None
        return render_comparison(history.compare_two(a, b), Page(root="./"))


def test_what_differs_by_more_than_noise_comes_first_with_the_reason(tmp_path: Path) -> None:
    html = compare(tmp_path, rto_s=80.0, lost=4)
    assert "worse: rto_s, longest_ack_gap_s" in html
    assert "B is not as expected and A was" in html
    assert "verdict failed instead of passed" in html
    assert html.index("<code>rto_s</code>") < html.index("<code>stored</code>")
    assert '<td class="number">80 s</td>' in html
    assert "more than noise" in html


def test_noise_is_called_noise(tmp_path: Path) -> None:
    html = compare(tmp_path, rto_s=50.1)
    assert "nothing differs by more than noise, as far as is known" in html
    assert "Nothing: the two runs compare." in html


def test_the_form_lists_the_runs_of_each_scenario(tmp_path: Path) -> None:
    compare(tmp_path)
    with open_history(path=tmp_path / "history.db") as history:
        html = render_choice(history.list_trends(), Page(), "run-3")
    assert '<optgroup label="sync_datacenter_loss">' in html
    assert html.count("selected") == 1
