"""Somebody is told of a result that matters, once, and whatever becomes of the telling, the verdict stands."""

from __future__ import annotations

import email
import json
import logging
import socketserver
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from airflow.sdk.bases.notifier import BaseNotifier
from airflow.sdk.exceptions import AirflowFailException, AirflowTaskTimeout
from brokerproof.errors import InputError
from brokerproof.orchestration.dag_building.operators import ReserveOperator, VerdictOperator
from brokerproof.orchestration.notify.notifier import NOTIFICATION_PROBLEM, check_notifiers
from brokerproof.orchestration.notify.rules import make_notification, read_rules
from brokerproof.results import run_outcome
from brokerproof.results.history import open_history
from brokerproof.results.regressions import CONFIRMING, ENOUGH, RECENT
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import RUN_REPORT, Run
from brokerproof.run.records import NotificationAttempt, read_record
from brokerproof.settings import Settings, from_environment
from builders import ROOT, leave_judgement

from ..conftest import FakeTaskInstance, judgement

ALL_FIELDS = "{{ brokerproof.scenario }} {{ brokerproof.verdict }} {{ brokerproof.expected }} {{ brokerproof.run_id }}"


class FileNotifier(BaseNotifier):
    """Appends its text to a file."""

    template_fields = ("text",)

    def __init__(self, *, file: str, text: str) -> None:
        super().__init__()
        self.file = file
        self.text = text

    def notify(self, context: Any) -> None:
        with Path(self.file).open("a", encoding="utf-8") as file:
            file.write(f"{self.text}\n")


class BrokenNotifier(BaseNotifier):
    """Its server refuses everybody, or answers never."""

    errors: ClassVar[dict[str, Any]] = {
        "refuse": ConnectionError("token s3cret refused"),
        "hang": AirflowTaskTimeout("300 s"),
        "exit": SystemExit,
    }

    def __init__(self, *, how: str = "refuse") -> None:
        super().__init__()
        self.how = how

    def notify(self, context: Any) -> None:
        raise self.errors[self.how]


FILE, BROKEN = (f"{__name__}.{kind.__name__}" for kind in (FileNotifier, BrokenNotifier))


@pytest.fixture
def told(tmp_path: Path) -> Path:
    return tmp_path / "told.txt"


@pytest.fixture(autouse=True)
def recorded(a_run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A history of this test's own; a run is recorded before its verdict."""
    monkeypatch.setenv("BROKERPROOF_DATABASE_URL", f"sqlite:///{tmp_path}/history.db")


def tell(monkeypatch: pytest.MonkeyPatch, *rules: dict[str, Any]) -> None:
    monkeypatch.setenv("BROKERPROOF_NOTIFY", json.dumps(rules))


def to_file(told: Path, text: str = "{{ brokerproof.sentence }}", **fields: Any) -> dict[str, Any]:
    return {"class": FILE, "kwargs": {"file": str(told), "text": text}, **fields}


def decide(run: Run, context: dict[str, Any], *, record: bool = True) -> str:
    """What the task `verdict` says, or the sentence with which it fails."""
    if record:
        with open_history() as history:
            history.record(run)
    try:
        return VerdictOperator(task_id="verdict", run_directory=run.directory).execute(context)
    except AirflowFailException as error:
        return f"failed task: {error}"


def test_a_failed_run_is_told_with_its_sentence_and_link(a_run, context, monkeypatch, told):
    tell(monkeypatch, to_file(told, f"{ALL_FIELDS} {{{{ brokerproof.sentence }}}} {{{{ brokerproof.link }}}}"))
    leave_judgement(a_run, judgement(completeness="failed"))
    assert decide(a_run, context).startswith("failed task: failed instead of passed")
    (line,) = told.read_text().splitlines()
    assert line.startswith("region_lost failed passed region_lost-1 failed instead of passed")
    assert compose_outcome(a_run).story in line
    assert line.endswith(f" {a_run.path(RUN_REPORT)}")


def test_a_run_as_expected_is_not_told(a_run, context, monkeypatch, told):
    tell(monkeypatch, to_file(told))
    leave_judgement(a_run, judgement())
    assert decide(a_run, context).startswith("passed, as expected")
    assert not told.exists()
    assert context["ti"].pushed == {}


def test_an_unknown_run_is_told_as_unknown_only(a_run, context, monkeypatch, told):
    tell(monkeypatch, to_file(told, "u", on=["unknown"]), to_file(told, "f", on=["failure"]), to_file(told, "all"))
    assert "nothing was judged" in decide(a_run, context)
    assert told.read_text().split() == ["u", "all"]


def measured(run: Run, rto_s: float) -> dict[str, Any]:
    row = {"run_id": run.run_id, "suite": "recovery", "metric": "rto_s", "subject": "eu_destroyed", "value": rto_s}
    return judgement() | {"measurements": [{**row, "unit": "s", "minimum": None, "maximum": 80.0, "evidence": ""}]}


def plant_regression(run: Run) -> None:
    """Runs with an RTO of 10 s, then four and this one with 70 s, which the scenario allows."""
    usual = ENOUGH + RECENT - CONFIRMING
    with open_history() as history:
        for number in range(usual + CONFIRMING - 1):
            earlier = Run.create(
                f"{run.directory}-{number}",
                run_id=f"earlier-{number}",
                scenario=run.scenario,
                topology=run.topology,
                triggered_at=number * 1_000_000,
            )
            leave_judgement(earlier, measured(earlier, 10.0 if number < usual else 70.0))
            history.record(earlier)
    leave_judgement(run, measured(run, 70.0))


def test_a_regression_is_told_although_the_run_is_as_expected(a_run, context, monkeypatch, told):
    plant_regression(a_run)
    tell(monkeypatch, to_file(told, on=["regression"]), to_file(told, "failed", on=["failure", "unknown"]))
    assert decide(a_run, context).startswith("passed, as expected")
    (line,) = told.read_text().splitlines()
    assert line.startswith("passed, as expected")
    assert "Worse than before: rto_s of eu_destroyed is 70 s, usually 10" in line


def test_a_task_that_is_done_again_tells_nobody_twice(a_run, monkeypatch, told):
    tell(monkeypatch, to_file(told, "once"))
    leave_judgement(a_run, judgement(completeness="failed"))
    for try_number in (1, 2):
        decide(a_run, {"ti": FakeTaskInstance(try_number), "params": {}})
    assert told.read_text().split() == ["once"]
    attempt = read_record(a_run, NotificationAttempt, 0)
    assert attempt is not None
    assert (attempt.notifier, attempt.sent, attempt.problem) == (FILE, True, None)


def test_a_task_that_is_done_again_tells_whoever_was_not_told(a_run, context, monkeypatch, told):
    tell(monkeypatch, {"class": BROKEN})
    leave_judgement(a_run, judgement(completeness="failed"))
    decide(a_run, context)
    tell(monkeypatch, to_file(told, "now"))
    decide(a_run, context)
    assert told.read_text().split() == ["now"]


@pytest.mark.parametrize("how", ["refuse", "hang", "exit"])
def test_a_notifier_that_fails_leaves_the_verdict_failed_and_is_seen(a_run, context, monkeypatch, caplog, how):
    tell(monkeypatch, {"class": BROKEN, "kwargs": {"how": how}})
    leave_judgement(a_run, judgement(completeness="failed"))
    assert decide(a_run, context).startswith("failed task: failed instead of passed")
    problem = context["ti"].pushed[NOTIFICATION_PROBLEM]
    assert problem.startswith(f"notifier {BROKEN} failed with ")
    assert any(record.levelno == logging.ERROR and BROKEN in record.getMessage() for record in caplog.records)
    attempt = read_record(a_run, NotificationAttempt, 0)
    assert attempt is not None
    assert not attempt.sent
    # What an exception says may hold a secret, so only the log has it.
    assert "s3cret" not in problem + str(attempt.problem)


@pytest.mark.parametrize("how", ["refuse", "hang", "exit"])
def test_a_notifier_that_fails_leaves_the_verdict_passed_and_is_seen(a_run, context, monkeypatch, how):
    tell(monkeypatch, {"class": BROKEN, "kwargs": {"how": how}})
    plant_regression(a_run)
    assert decide(a_run, context).startswith("passed, as expected")
    assert context["ti"].pushed[NOTIFICATION_PROBLEM].startswith(f"notifier {BROKEN} failed with ")


def test_one_notifier_that_fails_keeps_no_other_from_working(a_run, context, monkeypatch, told):
    tell(monkeypatch, {"class": BROKEN}, to_file(told, "second"))
    leave_judgement(a_run, judgement(completeness="failed"))
    decide(a_run, context)
    assert told.read_text().split() == ["second"]
    assert "ConnectionError" in context["ti"].pushed[NOTIFICATION_PROBLEM]


def test_after_a_notifier_that_took_all_the_time_no_other_one_may_hang(a_run, context, monkeypatch, told):
    tell(monkeypatch, {"class": BROKEN, "kwargs": {"how": "hang"}}, to_file(told, "second"))
    leave_judgement(a_run, judgement(completeness="failed"))
    assert decide(a_run, context).startswith("failed task: failed instead of passed")
    assert not told.exists()
    assert "the others were not used" in context["ti"].pushed[NOTIFICATION_PROBLEM]


def test_a_template_that_fails_leaves_the_verdict(a_run, context, monkeypatch, told):
    tell(monkeypatch, to_file(told, "{{ nobody.knows.this }}"))
    leave_judgement(a_run, judgement(completeness="failed"))
    assert decide(a_run, context).startswith("failed task: failed instead of passed")
    assert "UndefinedError" in context["ti"].pushed[NOTIFICATION_PROBLEM]


def test_rules_that_became_unusable_leave_the_verdict(a_run, context, monkeypatch):
    monkeypatch.setenv("BROKERPROOF_NOTIFY", "[")
    leave_judgement(a_run, judgement())
    assert decide(a_run, context).startswith("passed, as expected")
    assert "BROKERPROOF_NOTIFY: is no JSON" in context["ti"].pushed[NOTIFICATION_PROBLEM]


def test_a_history_that_cannot_be_read_keeps_nobody_from_being_told(a_run, context, monkeypatch, told):
    tell(monkeypatch, to_file(told, "told"))
    leave_judgement(a_run, judgement(completeness="failed"))
    decide(a_run, context, record=False)
    assert told.read_text().split() == ["told"]
    assert "is not known: this machine has no history yet" in context["ti"].pushed[NOTIFICATION_PROBLEM]


def test_a_run_that_was_not_recorded_is_told_without_a_comparison(a_run, context, monkeypatch, told):
    tell(monkeypatch, to_file(told, "told"))
    with open_history():
        pass
    leave_judgement(a_run, judgement(completeness="failed"))
    decide(a_run, context, record=False)
    assert told.read_text().split() == ["told"]
    assert "has no run region_lost-1" in context["ti"].pushed[NOTIFICATION_PROBLEM]


def test_without_rules_the_verdict_asks_no_history(a_run, context, monkeypatch, tmp_path):
    leave_judgement(a_run, judgement(completeness="failed"))
    decide(a_run, context, record=False)
    assert not (tmp_path / "history.db").exists()


def test_an_expected_failure_is_no_occasion(a_run):
    leave_judgement(a_run, judgement(completeness="failed"))
    outcome = run_outcome.compose_outcome(a_run)
    assert make_notification(outcome, None).occasions == ("failure",)
    assert make_notification(outcome.model_copy(update={"met": True}), None).occasions == ()


def read_settings(monkeypatch: pytest.MonkeyPatch, value: str) -> Settings:
    monkeypatch.setenv("BROKERPROOF_NOTIFY", value)
    return from_environment()


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("[", "BROKERPROOF_NOTIFY: is no JSON: Expecting value"),
        ('{"class": "a.b"}', "BROKERPROOF_NOTIFY: notifiers: `{class: a.b}` is no list (begin each entry with `- `)"),
        ("[{}]", "BROKERPROOF_NOTIFY: notifiers.0.class: is missing (add it)"),
        ('[{"class": "a.b", "onn": []}]', "notifiers.0.onn: unknown field `onn` (did you mean `on`?)"),
        (
            '[{"class": "a.b", "on": ["fail"]}]',
            "notifiers.0.on.0: unknown value `fail` (did you mean `failure`?)",
        ),
        ('[{"class": "a.b", "on": []}]', "notifiers.0.on: "),
        (
            '[{"class": "slack"}]',
            "notifiers.0.class: `slack` cannot be a name here (write the dotted path of a notifier class)",
        ),
        (
            '[{"class": "a.b", "kwargs": {"blocks": [{"text": "{{ brokerproof.sentense }}"}]}}]',
            "notifiers.0.kwargs.blocks.0.text: `brokerproof.sentense` is not known (did you mean `sentence`?)",
        ),
        ('[{"class": "a.b", "kwargs": {"text": "{{ brokerproof.link "}}]', "notifiers.0.kwargs.text: is no template: "),
    ],
)
def test_rules_that_cannot_be_used_get_a_sentence(monkeypatch, value, sentence):
    with pytest.raises(InputError) as error:
        read_rules(read_settings(monkeypatch, value))
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ({"class": "no.such.Notifier"}, "`no.such.Notifier` cannot be imported: No module named 'no'"),
        ({"class": "pathlib.Path"}, "`pathlib.Path` is no notifier (name a subclass of BaseNotifier)"),
        ({"class": FILE, "kwargs": {"text": "x"}}, "does not take these kwargs: "),
    ],
)
def test_a_notifier_that_cannot_be_used_is_refused_before_the_run(monkeypatch, scenarios, tmp_path, rule, sentence):
    tell(monkeypatch, rule)
    with pytest.raises(InputError) as error:
        check_notifiers(from_environment())
    assert "BROKERPROOF_NOTIFY: notifiers.0: " in str(error.value)
    assert sentence in str(error.value)


def test_reserve_checks_the_notifiers_before_anything_starts(monkeypatch, scenarios, context, tmp_path):
    tell(monkeypatch, {"class": "no.such.Notifier"})
    dag_run = SimpleNamespace(run_id="manual__1", run_after=datetime(2026, 11, 21, tzinfo=UTC))
    with pytest.raises(AirflowFailException, match="cannot be imported"):
        ReserveOperator(task_id="reserve", scenario="region_lost").execute({**context, "dag_run": dag_run})
    assert not (tmp_path / "var" / "runs").exists()


def test_a_rule_without_occasions_is_for_all_of_them(monkeypatch):
    (rule,) = read_rules(read_settings(monkeypatch, '[{"class": "a.b"}]'))
    assert rule.on == ("failure", "unknown", "regression")


def test_the_list_of_the_documentation_can_be_used(monkeypatch):
    text = (ROOT / "docs" / "results-elsewhere.md").read_text(encoding="utf-8")
    (rule,) = read_rules(read_settings(monkeypatch, text.partition("BROKERPROOF_NOTIFY='")[2].partition("'")[0]))
    assert rule.notifier.endswith("SlackWebhookNotifier")


class MailServer(socketserver.StreamRequestHandler):
    """Takes every mail, in the part of SMTP that a client needs for it."""

    mails: ClassVar[list[str]] = []

    def handle(self) -> None:
        self.wfile.write(b"220 ready\r\n")
        for line in self.rfile:
            command = line.split()[0].upper()
            if command == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                lines = iter(self.rfile.readline, b".\r\n")
                self.mails.append(b"".join(lines).decode())
            self.wfile.write(b"221 bye\r\n" if command == b"QUIT" else b"250 ok\r\n")


@pytest.fixture
def mails(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What Airflow's connection for mail was given to send."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), MailServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        options = "disable_ssl=true&disable_tls=true"
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", f"smtp://127.0.0.1:{server.server_address[1]}/?{options}")
        MailServer.mails.clear()
        yield MailServer.mails
        server.shutdown()


def test_the_mail_of_the_documentation_is_sent(a_run, context, monkeypatch, mails):
    """The provider for mail comes with Airflow; the rule is the one of docs/results-elsewhere.md."""
    text = (ROOT / "docs" / "results-elsewhere.md").read_text(encoding="utf-8")
    monkeypatch.setenv("BROKERPROOF_NOTIFY", text.partition("```json\n")[2].partition("```")[0])
    check_notifiers(from_environment())
    leave_judgement(a_run, judgement(completeness="failed"))
    decide(a_run, context)
    assert context["ti"].pushed == {}
    (mail,) = mails
    assert "Subject: region_lost: failed" in mail
    assert "platform-team@example.com" in mail
    body = email.message_from_string(mail).get_payload()[0].get_payload(decode=True).decode()
    assert body.startswith("<p>failed instead of passed")
    assert f"Report: {a_run.path(RUN_REPORT)}</p>" in body
