"""One scenario over its versions, settings, systems or runtimes."""

from __future__ import annotations

import pytest
from brokerproof.reports.groups_page import render_groups
from brokerproof.reports.pages import Page
from brokerproof.results.run_groups import GroupBy, GroupedMeasurement, RunGroup


def make_group(name: str, rto: float, *, runs: int = 6, **comparison: object) -> RunGroup:
    return RunGroup(
        name=name,
        differences=("scenario.runtime process → docker",) if name == "2" else (),
        run_ids=tuple(f"{name.split()[-1]}-{number}" for number in range(runs)),
        verdicts={"passed": runs - 1, "unknown": 1},
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


@pytest.mark.parametrize(("larger", "word"), [(False, "within noise"), (None, "nobody knows")])
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
