"""The rules of the setting `notify`. A rule names a notifier and the occasions on which it is used.

This module does not import Airflow, so that the command line can check the rules before Airflow starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from pydantic import Field

from brokerproof.bounded_reading import ContentError, load_json
from brokerproof.errors import InputError
from brokerproof.experiment.verdict import DECISIVE
from brokerproof.experiment.yaml_models import FrozenModel, parse, suggest_name
from brokerproof.results.regressions import RunComparison
from brokerproof.run.outcome import Outcome
from brokerproof.settings import Settings, variable

# The name of the notification in the templates of a notifier's keyword arguments.
TEMPLATE_NAME = "brokerproof"
SOURCE = variable("notify")


class Occasion(StrEnum):
    """A reason to send a notification about a run's result."""

    # The verdict is `passed` or `failed`, and the outcome is not the expected one.
    FAILURE = "failure"
    # The verdict is `unknown` or `no_data`, and the outcome is not the expected one.
    UNKNOWN = "unknown"
    # A result is worse than in earlier comparable runs.
    REGRESSION = "regression"


class NotificationRule(FrozenModel):
    """One notifier, and the occasions on which it is used."""

    notifier: str = Field(alias="class", pattern=r"^\w+(\.\w+)+$", description="the dotted path of a notifier class")
    kwargs: dict[str, Any] = Field(default_factory=dict, description="its keyword arguments, which may be templates")
    on: tuple[Occasion, ...] = Field(tuple(Occasion), min_length=1, description="when it is used")


class NotificationRules(FrozenModel):
    """The content of the setting `notify`."""

    notifiers: list[NotificationRule]


@dataclass(frozen=True, kw_only=True)
class Notification:
    """The content of a notification about a run. Templates use the fields, as in `{{ brokerproof.sentence }}`."""

    occasions: tuple[Occasion, ...]
    # One or more sentences, on one line.
    sentence: str
    # The path or URL of the run's report.
    link: str
    verdict: str
    expected: str
    scenario: str
    topology: str
    run_id: str
    # A sentence for each result that got worse.
    regressions: tuple[str, ...]


def read_rules(settings: Settings) -> list[NotificationRule]:
    """Return the rules of the setting `notify`, empty if it is not set. Raises InputError if a rule is unusable."""
    try:
        content = load_json(settings.notify or "[]")
    except ContentError as error:
        example = 'write `[{"class": "…", "kwargs": {…}}]`'
        problem = error.problem.removeprefix("not valid JSON: ")
        raise InputError(f"is no JSON: {problem}", field=SOURCE, remedy=example) from None
    rules = parse(NotificationRules, {"notifiers": content}, file=SOURCE).notifiers
    for number, rule in enumerate(rules):
        _check_templates(rule.kwargs, f"notifiers.{number}.kwargs")
    return rules


def make_notification(outcome: Outcome, comparison: RunComparison | None) -> Notification:
    """Return the notification about a run. It has no `occasions` if the outcome is expected and no result got worse."""
    regressions = tuple(mark.reason for mark in comparison.marks) if comparison else ()
    occasions: list[Occasion] = []
    if not outcome.met:
        occasions.append(Occasion.FAILURE if outcome.verdict in DECISIVE else Occasion.UNKNOWN)
    if regressions:
        occasions.append(Occasion.REGRESSION)
    worse = f" Worse than before: {'; '.join(regressions)}." if regressions else ""
    return Notification(
        occasions=tuple(occasions),
        sentence=f"{outcome.sentences}{worse}",
        link=outcome.report,
        verdict=str(outcome.verdict),
        expected=str(outcome.expected.verdict),
        scenario=outcome.scenario,
        topology=outcome.topology,
        run_id=outcome.run_id,
        regressions=regressions,
    )


def _check_templates(value: Any, field: str) -> None:
    """Search `value`, the arguments of a notifier, for templates that use the notification, and check them.

    Lists and mappings are searched at any depth. Raises InputError if a template has wrong syntax, or names a field
    that `Notification` does not have. Without this check, the mistake would show only at the first notification.
    """
    from jinja2 import Environment, TemplateSyntaxError, nodes

    if isinstance(value, (Mapping, list)):
        for name, each in value.items() if isinstance(value, Mapping) else enumerate(value):
            _check_templates(each, f"{field}.{name}")
    elif isinstance(value, str) and TEMPLATE_NAME in value:
        try:
            template = Environment().parse(value)
        except TemplateSyntaxError as error:
            remedy = "mend the braces"
            raise InputError(f"is no template: {error.message}", file=SOURCE, field=field, remedy=remedy) from None
        known = [each.name for each in fields(Notification)]
        for access in template.find_all(nodes.Getattr):
            is_ours = isinstance(access.node, nodes.Name) and access.node.name == TEMPLATE_NAME
            if is_ours and access.attr not in known:
                unknown, remedy = f"`{TEMPLATE_NAME}.{access.attr}` is not known", suggest_name(access.attr, known)
                raise InputError(unknown, file=SOURCE, field=field, remedy=remedy)
