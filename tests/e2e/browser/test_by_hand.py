"""What people do by hand in Airflow's pages: log in, read what a scenario proves, change it, start it, see its end."""

from __future__ import annotations

import json
import re

from brokerproof.clock import wait_until
from brokerproof.orchestration.dag_run import derive_run_id
from installation import Installation
from own_browser import PATIENCE_MS, log_in, send_trigger_form
from playwright.sync_api import Page, expect


def start(page: Page, dag_id: str) -> str:
    """Send the form that is open; the id that Airflow gave the run."""
    triggered = send_trigger_form(page, dag_id).json()
    page.wait_for_url(f"**/dags/{dag_id}/runs/**")
    return str(triggered["dag_run_id"])


def type_settings(page: Page, text: str) -> None:
    """Type into Airflow's editor of JSON, which is loaded after the form, and see that it has just this text.

    The editor closes quotes and braces by itself, so they are deleted behind the text. It also formats the text while
    somebody types; if a part of it got lost so, it is typed again.
    """
    editor = page.locator("#element_settings")
    expect(editor.locator(".view-lines")).to_contain_text("{}", timeout=PATIENCE_MS)
    words = map(re.escape, ["{", *text.strip("{}").split(), "}"])
    typed = re.compile("^" + r"\s*".join(words) + "$")
    for is_last in (False, False, True):
        editor.click()
        page.keyboard.press("ControlOrMeta+A")
        page.keyboard.insert_text(text)
        page.keyboard.press("ControlOrMeta+Shift+End")
        page.keyboard.press("Delete")
        try:
            expect(editor.locator(".view-lines")).to_have_text(typed, timeout=PATIENCE_MS if is_last else 5000)
            return
        except AssertionError:
            if is_last:
                raise


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
    running.client().wait_for_dag("leader_loss")
    page.goto("/dags/leader_loss")
    page.get_by_role("button", name="Dag Docs").click()
    said = page.get_by_role("dialog")
    expect(said).to_contain_text("Another server takes over within seconds")
    expect(said).to_contain_text("Expected verdict: passed")
    page.keyboard.press("Escape")

    page.get_by_role("button", name="Trigger").first.click()
    type_settings(page, '{"workload.rate": 600}')
    dag_run_id = start(page, "leader_loss")
    assert wait_for_its_end(running, "leader_loss", dag_run_id) == "success"
    expect(page.get_by_text("Success").first).to_be_visible(timeout=PATIENCE_MS)

    run_id = derive_run_id("leader_loss", dag_run_id)
    check_lost_leader(running, run_id, dag_run_id)

    # From the run's report to what a task said.
    page.goto(f"/brokerproof/runs/{run_id}")
    page.get_by_role("link", name="verdict", exact=True).click()
    page.wait_for_url("**/tasks/verdict**")
    expect(page.get_by_text("messages acked").first).to_be_visible(timeout=PATIENCE_MS)


def check_lost_leader(running: Installation, run_id: str, dag_run_id: str) -> None:
    """The leader is replaced, and what the log server cannot do is not applicable."""
    outcome = running.state(run_id, "outcome") or {}
    assert (outcome["verdict"], outcome["met"]) == ("passed", True)
    # Its tables were compared with their seals. A busy machine may have had no time for the load.
    assert [note for note in outcome["notes"] if "missed its rate" not in note] == []
    counts = outcome["counts"]
    assert counts["acked"] > 2000
    assert counts["stored"] >= counts["acked"]
    recovery = outcome["recovery"]["leader_killed"]
    assert recovery["reassign_s"] is not None
    assert recovery["longest_ack_gap_s"] > 0
    # A log server without repair is not asked how long its repair took.
    assert recovery.get("rereplicate_s") is None
    judgement = running.state(run_id, "judgement") or {}
    checks = {each["name"]: each for suite in judgement["suites"].values() for each in suite["expectations"]}
    for metric in ("segments_not_spanning", "under_replicated_segments", "rereplicate_s"):
        assert checks[metric]["verdict"] == "not_applicable", metric
    tasks = {task.task_id: task.state for task in running.client().list_tasks("leader_loss", dag_run_id)}
    # The log server says nothing of where copies are, and the scenario does not ask who owns the topic.
    assert tasks.pop("placement") == "skipped"
    assert set(tasks.values()) == {"success"}
    facts = json.loads((running.settings.runs / run_id / "run.json").read_text())
    assert facts["scenario"]["workload"]["rate"] == 600
    steps = outcome["seconds"]["steps"]
    assert {"reserve", "provision", "load", "consume", "break_it", "read_back", "verify", "release"} <= set(steps)
    assert run_id in running.brokerproof("history", "leader_loss", "--json").stdout


def test_a_campaign_is_started_with_the_scenarios_that_were_chosen(running: Installation, page: Page) -> None:
    running.client().wait_for_dag("campaign")
    page.goto("/dags/campaign")
    page.get_by_role("button", name="Trigger").first.click()
    form = page.get_by_role("dialog")
    chosen = "losing"
    others = {file.stem for file in running.scenarios.glob("*.yaml")} - {chosen}
    for name in sorted(others):
        form.get_by_label(f"Remove {name}", exact=True).get_by_role("button").click()
    dag_run_id = start(page, "campaign")
    client = running.client()
    planned = wait_until(
        lambda: client.read_xcom("campaign", dag_run_id, "plan", "return_value"),
        timeout_s=120,
        what="the campaign's plan",
    )
    assert [run["trigger_dag_id"] for run in planned] == [chosen]
    # What becomes of them is tested without a browser. A run that began would go on after its campaign was cancelled.
    wait_until(lambda: client.list_running(chosen), timeout_s=120, what="its run", every_s=1)
    client.cancel_run("campaign", dag_run_id)
    client.cancel_run(chosen, planned[0]["trigger_run_id"])
    wait_until(lambda: not client.list_unfinished_runs(), timeout_s=120, what="the end of both", every_s=1)
