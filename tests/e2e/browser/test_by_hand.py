"""What people do by hand in Airflow's pages: log in, read what a scenario proves, change it, start it, see its end."""

from __future__ import annotations

import json
from urllib.parse import unquote

import pytest
from brokerproof.clock import wait_until
from brokerproof.orchestration.run_id import derive_run_id
from installation import Installation
from playwright.sync_api import Page, expect

from .conftest import PATIENCE_MS, log_in

pytestmark = pytest.mark.e2e


def start(page: Page, dag_id: str) -> str:
    """Send the form that is open; the id that Airflow gave the run."""
    page.get_by_test_id("trigger-dag-submit").click()
    page.wait_for_url(f"**/dags/{dag_id}/runs/**")
    return unquote(page.url.split("/runs/")[1].split("?")[0].split("/")[0])


def wait_for_its_end(running: Installation, dag_id: str, dag_run_id: str) -> str:
    client = running.client()
    wait_until(
        lambda: client.read_state(dag_id, dag_run_id) in ("failed", "success"),
        timeout_s=600,
        what=f"{dag_id} to end",
        every_s=2,
    )
    return client.read_state(dag_id, dag_run_id)


def test_who_has_not_logged_in_sees_nothing_but_the_form(running: Installation, stranger: Page) -> None:
    running.client().wait_for_dag("nominal")
    stranger.goto("/dags/nominal")
    expect(stranger.get_by_label("Password")).to_be_visible(timeout=PATIENCE_MS)
    expect(stranger.get_by_text("Nothing happens to three servers")).to_have_count(0)
    log_in(stranger, "admin")
    expect(stranger.get_by_text("Invalid credentials")).to_be_visible(timeout=PATIENCE_MS)
    stranger.goto("/dags/nominal")
    expect(stranger.get_by_label("Password")).to_be_visible(timeout=PATIENCE_MS)


def test_a_scenario_is_read_changed_started_and_seen_to_its_end(running: Installation, page: Page) -> None:
    running.client().wait_for_dag("nominal")
    page.goto("/dags/nominal")
    page.get_by_role("button", name="Dag Docs").click()
    said = page.get_by_role("dialog")
    expect(said).to_contain_text("Every promise holds where nothing fails.")
    expect(said).to_contain_text("Expected verdict: passed")
    page.keyboard.press("Escape")

    page.get_by_role("button", name="Trigger").first.click()
    page.get_by_role("button", name="Workload").click()
    page.get_by_label("Rate").fill("600")
    # A number is taken when the field is left.
    page.get_by_label("Rate").blur()
    dag_run_id = start(page, "nominal")
    assert wait_for_its_end(running, "nominal", dag_run_id) == "success"
    expect(page.get_by_text("Success").first).to_be_visible(timeout=PATIENCE_MS)

    directory = running.settings.runs / derive_run_id("nominal", dag_run_id)
    assert json.loads((directory / "run.json").read_text())["scenario"]["workload"]["rate"] == 600
    assert json.loads((directory / "state" / "outcome.json").read_text())["verdict"] == "passed"


def test_a_campaign_is_started_with_the_scenarios_that_were_chosen(running: Installation, page: Page) -> None:
    running.client().wait_for_dag("campaign")
    page.goto("/dags/campaign")
    page.get_by_role("button", name="Trigger").first.click()
    form = page.get_by_role("dialog")
    for name in ("nominal", "leader_loss", "repeating", "reordering", "reordering_unexpected", "refusing", "endless"):
        form.get_by_label(f"Remove {name}", exact=True).get_by_role("button").click()
    dag_run_id = start(page, "campaign")
    client = running.client()
    planned = wait_until(
        lambda: client.read_xcom("campaign", dag_run_id, "plan", "return_value"),
        timeout_s=120,
        what="the campaign's plan",
    )
    # What becomes of them is tested without a browser.
    client.cancel_run("campaign", dag_run_id)
    assert [run["trigger_dag_id"] for run in planned] == ["losing"]
