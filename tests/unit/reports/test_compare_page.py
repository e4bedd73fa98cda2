"""Two runs side by side, and one scenario over its versions, settings, systems or runtimes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from brokerproof.reports.compare_page import render_choice, render_comparison, render_groups
from brokerproof.reports.pages import Page
from brokerproof.results.history import open_history
from brokerproof.results.rates import list_rates
from brokerproof.results.run_groups import GroupBy, GroupedMeasurement, RunGroup
from builders import SCENARIOS
from planted_runs import plant_run

NIGHT = datetime(2026, 1, 1, tzinfo=UTC)


def compare(directory: Path, **last: Any) -> str:
    """A page about the run of the last night and the one before, after nights with an RTO of about 50 s."""
    with open_history(path=directory / "history.db") as history:
        for night in range(14):
            run = plant_run(
                directory / f"run-{night}",
                SCENARIOS / "sync_datacenter_loss.yaml",
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
    assert "worse: lost (illegal), rto_s, longest_ack_gap_s" in html
    assert "B is not as expected and A was" in html
    assert "verdict failed instead of passed" in html
    assert html.index("<code>rto_s</code>") < html.index("<code>stored</code>")
    assert '<td class="number">80 s</td>' in html
    assert "more than noise" in html


def test_noise_is_called_noise(tmp_path: Path) -> None:
    html = compare(tmp_path, rto_s=50.1)
    assert "nothing differs by more than noise, as far as is known" in html
    assert "Nothing: the two runs compare." in html


def test_the_rule_about_noise_is_on_the_page_once_and_a_loss_is_worse_without_it(tmp_path: Path) -> None:
    with open_history(path=tmp_path / "history.db") as history:
        a, b = (
            history.record(
                plant_run(
                    tmp_path / f"run-{night}",
                    SCENARIOS / "sync_datacenter_loss.yaml",
                    at=NIGHT + timedelta(days=night),
                    lost=night * 5742,
                    overrides={"workload.client.batch_by_key": not night},
                )
            )
            for night in range(2)
        )
        html = render_comparison(history.compare_two(a, b), Page(root="./"))
    assert html.count("noise is not known") == 1
    assert "worse: lost (illegal)" in html
    assert '<tr class="bad"><th scope="row"><code>lost (illegal)</code></th>' in html
    assert "<td>more than noise, worse</td>" in html
    assert "batch_by_key</code></th><td>true</td><td>false</td>" in html


def test_the_form_lists_the_runs_of_each_scenario(tmp_path: Path) -> None:
    compare(tmp_path)
    with open_history(path=tmp_path / "history.db") as history:
        html = render_choice(history.list_trends(), Page(), "run-3")
    assert '<optgroup label="sync_datacenter_loss">' in html
    assert html.count("selected") == 1


def make_group(name: str, rto: float, *, runs: int = 6, **comparison: object) -> RunGroup:
    return RunGroup(
        name=name,
        differences=("scenario.runtime process → docker",) if name == "2" else (),
        run_ids=tuple(f"{name.split()[-1]}-{number}" for number in range(runs)),
        verdicts={"passed": runs - 1, "unknown": 1},
        rate=list_rates([(name, "passed")] * (runs - 1))[0],
        measurements=(
            GroupedMeasurement(
                metric="rto_s",
                subject="eu_destroyed",
                unit="s",
                n=runs - 1,
                median=rto,
                least=rto - 1,
                greatest=rto + 1,
                **comparison,
            ),
        ),
    )


def test_what_is_worse_is_in_the_headline_and_marked() -> None:
    old = make_group("pulsar 4.0.8", 50.0)
    new = make_group(
        "pulsar 4.1.0", 75.0, difference=25.0, larger_than_noise=True, worse=True, why="6 and 6 judged runs"
    )
    html = render_groups("destroy_eu", GroupBy.VERSION, [old, new], Page(root="../../"))
    assert "<h1>pulsar 4.1.0 is worse in rto_s</h1>" in html
    assert '<td class="bad">75 s <span class="subject">74 to 76, 5 runs</span>' in html
    assert '<a href="../../runs/4.1.0-0">4.1.0-0</a>' in html
    assert '<a href="../../scenarios/destroy_eu/groups?by=settings">settings</a>' in html


@pytest.mark.parametrize(("larger", "word"), [(False, "within noise"), (None, "not known")])
def test_noise_and_what_nobody_knows_have_their_words(larger: bool | None, word: str) -> None:
    groups = [make_group("a", 50.0), make_group("b", 52.0, difference=2.0, larger_than_noise=larger, worse=True)]
    html = render_groups("destroy_eu", GroupBy.SYSTEM, groups, Page())
    assert "no group differs by more than noise, as far as is known" in html
    assert f">{word}</span>" in html
    assert 'class="bad"' not in html


def test_groups_by_settings_say_what_was_set_otherwise() -> None:
    html = render_groups("destroy_eu", GroupBy.SETTINGS, [make_group("1", 50.0), make_group("2", 51.0)], Page())
    assert "<dt>settings 2</dt><dd><code>scenario.runtime process → docker</code></dd>" in html


def test_one_group_and_none_have_their_sentences() -> None:
    assert "All runs are of one version: pulsar 4.0.8" in render_groups(
        "destroy_eu", GroupBy.VERSION, [make_group("pulsar 4.0.8", 50.0)], Page()
    )
    assert "No run is recorded yet." in render_groups("destroy_eu", GroupBy.RUNTIME, [], Page())


def test_groups_beyond_the_columns_are_named() -> None:
    groups = [make_group(f"pulsar 4.0.{number}", 50.0) for number in range(8)]
    html = render_groups("destroy_eu", GroupBy.VERSION, groups, Page())
    assert "Without a column: pulsar 4.0.6, pulsar 4.0.7." in html
