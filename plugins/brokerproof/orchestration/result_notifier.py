"""The notifier that sends a run's result through the notifiers of Airflow's providers.

A rule of the settings names the class of a notifier, so Brokerproof itself requires no provider. Airflow's connections
hold the passwords. A notifier that fails never changes the verdict. Its failure is an error in the task's log, the
task's XCom `notification_problem`, and a record in the run's directory.
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
from brokerproof.orchestration.notification_rules import (
    TEMPLATE_NAME,
    Notification,
    NotificationRule,
    find_rules_source,
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

log = logging.getLogger(__name__)


class NotificationError(BrokerproofError):
    """At least one notifier failed to send a run's result."""


class ResultNotifier(BaseNotifier):
    """Use each notifier of the rules once for a run, even if the task is repeated.

    If the task is killed while a notifier works, the repeated task uses that notifier again. Two notifications are
    better than no notification.
    """

    def __init__(self, *, run: Run, notification: Notification, rules: Sequence[NotificationRule]) -> None:
        super().__init__()
        self.run = run
        self.notification = notification
        self.rules = rules

    def notify(self, context: Context) -> None:
        """Use every notifier that has an occasion. At the end, raise NotificationError if one failed."""
        problems: list[str] = []
        for number, rule in enumerate(self.rules):
            if not set(rule.on) & set(self.notification.occasions) or self._was_told(number, rule):
                continue
            try:
                self._tell(rule, context)
            except (Exception, SystemExit, AirflowTaskTimeout) as error:
                log.exception("notifier %s failed", rule.notifier)
                problems.append(f"notifier {rule.notifier} failed with {type(error).__name__}")
                self._leave_attempt(number, rule, type(error).__name__)
                if isinstance(error, AirflowTaskTimeout):
                    # Airflow enforces a task's time limit only once, so the next notifier could hang for ever.
                    problems.append("the others were not used, because the task had no time left")
                    break
            else:
                log.info("told %s", rule.notifier)
                self._leave_attempt(number, rule, None)
        if problems:
            raise NotificationError("; ".join(problems))

    def _tell(self, rule: NotificationRule, context: Context) -> None:
        # A notifier adds its own fields to its context, so each notifier gets a copy.
        own: Any = {**context, TEMPLATE_NAME: self.notification}
        load_notifier(rule)(own)

    def _was_told(self, number: int, rule: NotificationRule) -> bool:
        try:
            attempt = read_record(self.run, NotificationAttempt, number)
        except (RunError, OSError):
            log.exception("whether %s was told of this run before is not known, so it is told", rule.notifier)
            return False
        return attempt is not None and attempt.sent and attempt.notifier == rule.notifier

    def _leave_attempt(self, number: int, rule: NotificationRule, problem: str | None) -> None:
        attempt = NotificationAttempt(
            rule=number, notifier=rule.notifier, sent=problem is None, problem=problem, at=clock.now_us()
        )
        try:
            write_record(self.run, attempt)
        except MachineError:
            # The other notifiers still have to be used.
            log.exception("a task that is done again will tell %s again", rule.notifier)


def load_notifier(rule: NotificationRule, *, file: str = "", field: str = "") -> BaseNotifier:
    """Return the notifier of a rule. Raises InputError, which names `file` and `field`, if it cannot be made."""
    try:
        found = pkgutil.resolve_name(rule.notifier)
    except Exception as error:
        raise InputError(
            f"`{rule.notifier}` cannot be imported: {error}",
            file=file,
            field=field,
            remedy="install the Airflow provider that has it, or correct the name",
        ) from error
    if not (isinstance(found, type) and issubclass(found, BaseNotifier)):
        raise InputError(
            f"`{rule.notifier}` is no notifier", file=file, field=field, remedy="name a subclass of BaseNotifier"
        )
    try:
        return found(**rule.kwargs)
    except Exception as error:
        raise InputError(
            f"`{rule.notifier}` does not take these kwargs: {error}",
            file=file,
            field=field,
            remedy="correct the kwargs",
        ) from error


def check_notifiers(settings: Settings) -> None:
    """Check the rules and load every notifier before a run starts. Raises InputError if one cannot be used."""
    source = find_rules_source(settings)
    for number, rule in enumerate(read_rules(settings)):
        load_notifier(rule, file=source, field=f"notifiers.{number}")


def tell_of_result(run: Run, outcome: Outcome, context: Context) -> None:
    """Use the notifiers of the settings that have an occasion in this run.

    Raises no Exception, because the caller decides the verdict and a notifier must not change it.
    """
    problems: list[str] = []
    try:
        rules = read_rules(from_environment())
        if rules:
            _, comparison, problem = compare_recorded_run(run.run_id)
            if problem:
                problems.append(f"whether the run is worse than those before it is not known: {problem}")
                log.error(problems[-1])
            notification = make_notification(outcome, comparison)
            ResultNotifier(run=run, notification=notification, rules=rules)(context)
    except (Exception, SystemExit, AirflowTaskTimeout) as error:
        log.exception("somebody was not told of the result, and the verdict stands")
        problems.append(str(error) if isinstance(error, BrokerproofError) else type(error).__name__)
    if problems:
        try:
            context["ti"].xcom_push(key=NOTIFICATION_PROBLEM, value="; ".join(problems))
        except Exception:
            log.exception("that somebody was not told could not be stored as an XCom either")
