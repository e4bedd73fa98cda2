"""Sends a run's result through the notifiers of Airflow's providers.

A rule in the setting `notify` names a notifier's class, so Brokerproof itself requires no provider. Passwords are in
Airflow's connections. If a notifier fails, the verdict stays as it is. The failure is written to the task's log, to the
task's XCom `notification_problem`, and to a record in the run's directory.
"""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.bases.notifier import BaseNotifier
from airflow.sdk.exceptions import AirflowTaskTimeout

from brokerproof import clock
from brokerproof.errors import BrokerproofError, InputError, MachineError, RunError
from brokerproof.orchestration.notify.rules import (
    SOURCE,
    TEMPLATE_NAME,
    Notification,
    NotificationRule,
    make_notification,
    read_rules,
)
from brokerproof.results.history import compare_recorded_run
from brokerproof.run.directory import Run
from brokerproof.run.outcome import Outcome
from brokerproof.run.records import NotificationAttempt, read_record, write_record
from brokerproof.settings import Settings, from_environment

if TYPE_CHECKING:
    from airflow.sdk import Context

# The key of the task's XCom with the problems of the notifiers.
NOTIFICATION_PROBLEM = "notification_problem"
# A notifier may exit or use up the task's time.
_FAILURES = (Exception, SystemExit, AirflowTaskTimeout)

log = logging.getLogger(__name__)


def check_notifiers(settings: Settings) -> None:
    """Check the setting `notify` before a run starts. Raises InputError if a rule or a notifier cannot be used."""
    for number, rule in enumerate(read_rules(settings)):
        _make_notifier(rule, field=f"notifiers.{number}")


def notify_of_result(run: Run, outcome: Outcome, context: Context) -> None:
    """Send the run's result with each notifier whose rule applies to it.

    If the task is repeated, it skips the notifiers that have worked. A notifier that failed or was interrupted is used
    again, even if the user then gets two notifications. An error of a notifier is recorded, not raised.
    """
    problems: list[str] = []
    try:
        if rules := read_rules(from_environment()):
            _, comparison, problem = compare_recorded_run(run)
            if problem:
                problems.append(f"whether the run is worse than earlier runs is not known: {problem}")
                log.error(problems[-1])
            notification = make_notification(outcome, comparison)
            _use_notifiers(run, rules, notification, context, problems)
    except _FAILURES as error:
        log.exception("the notifiers could not be used; the verdict does not change")
        problems.append(str(error) if isinstance(error, BrokerproofError) else type(error).__name__)
    if problems:
        try:
            context["ti"].xcom_push(key=NOTIFICATION_PROBLEM, value="; ".join(problems))
        except Exception:
            log.exception("the problems of the notifiers could not be stored as an XCom: %s", problems)


def _use_notifiers(
    run: Run, rules: Sequence[NotificationRule], notification: Notification, context: Context, problems: list[str]
) -> None:
    """Use each notifier whose rule applies, unless the notifier already worked in an earlier try of the task.

    For each failure, a sentence is added to `problems`.
    """
    for number, rule in enumerate(rules):
        if not set(rule.on) & set(notification.occasions) or _was_sent(run, number, rule):
            continue
        problem: str | None = None
        try:
            # A notifier adds its own fields to its context, so each notifier gets a copy.
            own: Any = {**context, TEMPLATE_NAME: notification}
            _make_notifier(rule)(own)
            log.info("used notifier %s", rule.notifier)
        except _FAILURES as error:
            log.exception("notifier %s failed", rule.notifier)
            problem = type(error).__name__
            problems.append(f"notifier {rule.notifier} failed with {problem}")
        sent = problem is None
        attempt = NotificationAttempt(
            rule=number, notifier=rule.notifier, sent=sent, problem=problem, at=clock.now_us()
        )
        try:
            write_record(run, attempt)
        except MachineError:
            # The other notifiers still have to be used.
            log.exception("a repeated task will use notifier %s again", rule.notifier)
        if problem == AirflowTaskTimeout.__name__:
            # Airflow enforces a task's time limit only once, so the next notifier could hang for ever.
            problems.append("the others were not used, because the task had no time left")
            return


def _was_sent(run: Run, number: int, rule: NotificationRule) -> bool:
    try:
        attempt = read_record(run, NotificationAttempt, number)
    except (RunError, OSError):
        log.exception("whether notifier %s was used for this run is not known, so it is used", rule.notifier)
        return False
    return attempt is not None and attempt.sent and attempt.notifier == rule.notifier


def _make_notifier(rule: NotificationRule, field: str = "") -> BaseNotifier:
    """Return the notifier of a rule. Raises InputError if it cannot be made."""
    name = rule.notifier
    try:
        found = pkgutil.resolve_name(name)
    except Exception as error:
        remedy = "install the Airflow provider that has it, or correct the name"
        raise InputError(f"`{name}` cannot be imported: {error}", file=SOURCE, field=field, remedy=remedy) from error
    if not (isinstance(found, type) and issubclass(found, BaseNotifier)):
        raise InputError(f"`{name}` is no notifier", file=SOURCE, field=field, remedy="name a subclass of BaseNotifier")
    try:
        return found(**rule.kwargs)
    except Exception as error:
        problem = f"`{name}` does not take these kwargs: {error}"
        raise InputError(problem, file=SOURCE, field=field, remedy="correct the kwargs") from error
