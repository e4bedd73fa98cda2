"""The badge says in words and in a colour whether the last run is as expected."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from brokerproof.reports.badge import AMBER, GREEN, GREY, LABEL, RED, render_history_badge, render_run_badge

SVG = "{http://www.w3.org/2000/svg}"
CONTROL = {"expect": {"verdict": "failed", "at_least": {"lost": 1}}}


def read(badge: str) -> tuple[str, str]:
    """The title and the colour of the right side; the title is also what a screen reader says."""
    root = ET.fromstring(badge)
    title = root.findtext(f"{SVG}title") or ""
    assert (root.get("role"), root.get("aria-label")) == ("img", title)
    shown = [text.text for text in root.iter(f"{SVG}text")]
    assert ": ".join(map(str, shown)) == title
    assert root.findall(f"{SVG}g/{SVG}rect")[0].get("fill") == LABEL
    return title, str(root.findall(f"{SVG}g/{SVG}rect")[1].get("fill"))


def test_the_badge_of_a_run_as_expected_is_green(plant, judgement):
    assert read(render_run_badge(plant(judged=judgement()))) == ("brokerproof kill_region: passed", GREEN)


def test_the_badge_of_a_failed_run_is_red(plant, judgement):
    run = plant(judged=judgement("failed", failed=("ordering",)))
    assert read(render_run_badge(run)) == ("brokerproof kill_region: failed", RED)


def test_the_badge_of_a_run_that_was_not_judged_is_neither_green_nor_red(plant):
    assert read(render_run_badge(plant())) == ("brokerproof kill_region: unknown", AMBER)


def test_a_control_that_failed_as_expected_is_green_and_one_that_passed_is_not(plant, judgement):
    failed = plant("a", judged=judgement("failed", failed=("ordering",), illegal={"lost": 2}), changes=CONTROL)
    assert read(render_run_badge(failed)) == ("brokerproof kill_region: failed as expected", GREEN)
    passed = plant("b", judged=judgement(), changes=CONTROL)
    assert read(render_run_badge(passed)) == ("brokerproof kill_region: passed, not as expected", RED)
    too_little = plant("c", judged=judgement("failed", failed=("ordering",)), changes=CONTROL)
    assert read(render_run_badge(too_little)) == ("brokerproof kill_region: failed, not as expected", RED)


def test_the_badge_of_a_scenario_is_that_of_its_last_run(plant, judgement, sqlite_history):
    sqlite_history.record(plant("new", judged=judgement(), minutes=9))
    sqlite_history.record(plant("old", judged=judgement("failed", failed=("ordering",)), minutes=1))
    assert read(render_history_badge(sqlite_history, "kill_region")) == ("brokerproof kill_region: passed", GREEN)
    assert read(render_history_badge(sqlite_history, "never_run")) == ("brokerproof never_run: no run", GREY)


def test_the_badge_of_all_scenarios_counts_those_as_expected(plant, judgement, sqlite_history):
    assert read(render_history_badge(sqlite_history)) == ("brokerproof: no run", GREY)
    sqlite_history.record(plant("a", judged=judgement()))
    assert read(render_history_badge(sqlite_history)) == ("brokerproof: 1 of 1 as expected", GREEN)
    sqlite_history.record(plant("b", changes={"name": "unjudged"}))
    assert read(render_history_badge(sqlite_history)) == ("brokerproof: 1 of 2 as expected", AMBER)
    sqlite_history.record(plant("c", judged=judgement("failed", failed=("ordering",)), changes={"name": "broken"}))
    assert read(render_history_badge(sqlite_history)) == ("brokerproof: 1 of 3 as expected", RED)


@pytest.mark.parametrize("colour", [LABEL, GREEN, RED, AMBER, GREY])
def test_white_text_can_be_read_on_every_colour(colour):
    def compute_luminance(hexadecimal: str) -> float:
        parts = [int(hexadecimal[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    # WCAG 2, level AA. Amber as traffic lights have it would not do.
    assert 1.05 / (compute_luminance("#ffbf00") + 0.05) < 4.5
    assert 1.05 / (compute_luminance(colour) + 0.05) >= 4.5


def test_nothing_is_asked_of_another_host(plant, judgement):
    badge = render_run_badge(plant(judged=judgement()))
    assert badge.count("://") == badge.count('xmlns="http://www.w3.org/2000/svg"') == 1


def test_longer_words_have_more_room(plant, judgement):
    short = plant("a", judged=judgement())
    long = plant("b", judged=judgement(), changes={"name": "kill_region_and_wait"})
    widths = [float(ET.fromstring(render_run_badge(run)).get("width", 0)) for run in (short, long)]
    assert widths[0] + 20 < widths[1]
