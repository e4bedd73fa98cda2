"""The rules of the settings `notify` and `notifiers`: which notifier is used for a run's result on which occasions.

This module does not import Airflow, so that the command line can check the rules before Airflow starts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from pydantic import Field, model_validator

from brokerproof.errors import InputError
from brokerproof.experiment.verdict import DECISIVE
from brokerproof.experiment.yaml_models import FrozenModel, parse, read_yaml, suggest_name
from brokerproof.results.regressions import RunComparison
from brokerproof.run.outcome import Outcome
from brokerproof.settings import Settings, variable

# The name of the notification in the templates of a notifier's keyword arguments.
TEMPLATE_NAME = "brokerproof"


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

    notifier: str = Field(
        alias="class",
        pattern=r"^\w+(\.\w+)+$",
        description="the dotted path of a notifier class",
    )
    kwargs: dict[str, Any] = Field(default_factory=dict, description="its keyword arguments, which may be templates")
    on: tuple[Occasion, ...] = Field(tuple(Occasion), min_length=1, description="when it is used")

    @model_validator(mode="before")
    @classmethod
    def _read_on(cls, content: Any) -> Any:
        # YAML 1.1 reads the key `on` as `true`.
        if isinstance(content, Mapping):
            return {"on" if key is True else key: value for key, value in content.items()}
        return content


class NotificationRules(FrozenModel):
    """The rules of one source: a file, or the setting `notify`."""

    notifiers: tuple[NotificationRule, ...]


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


def find_rules_source(settings: Settings) -> str:
    """Return the variable or the file with the rules, as errors name it. Raises InputError if both are set."""
    if settings.notify and settings.notifiers:
        raise InputError(
            f"{variable('notifiers')} is set too", field=variable("notify"), remedy="set only one of the two"
        )
    return str(settings.notifiers) if settings.notifiers else variable("notify")


def read_rules(settings: Settings) -> tuple[NotificationRule, ...]:
    """Return the rules of the settings, empty if neither setting is set. Raises InputError if a rule is unusable."""
    source = find_rules_source(settings)
    if settings.notifiers:
        content = read_yaml(settings.notifiers)
    elif settings.notify:
        content = {"notifiers": _load_list(settings.notify)}
    else:
        return ()
    rules = parse(NotificationRules, content, file=source).notifiers
    for number, rule in enumerate(rules):
        for path, text in _list_texts(rule.kwargs, f"notifiers.{number}.kwargs"):
            _check_template(text, file=source, field=path)
    return rules


def make_notification(outcome: Outcome, comparison: RunComparison | None) -> Notification:
    """Return the notification about a run. If its `occasions` are empty, no notifier is used."""
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


def _load_list(text: str) -> list[Any]:
    field = variable("notify")
    example = 'write `[{"class": "…", "kwargs": {…}}]`'
    try:
        content = json.loads(text)
    except ValueError as error:
        raise InputError(f"is no JSON: {error}", field=field, remedy=example) from None
    if not isinstance(content, list):
        raise InputError("is no list", field=field, remedy=example)
    return content


def _list_texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield (dotted path, text) for each text in a plain value, at any depth."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _list_texts(each, f"{path}.{name}")
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _list_texts(each, f"{path}.{number}")


def _check_template(text: str, *, file: str, field: str) -> None:
    """Raises InputError if a text that uses TEMPLATE_NAME is no template, or names an unknown field of Notification.

    Without this check, the mistake would show only when the first notification fails.
    """
    from jinja2 import Environment, TemplateSyntaxError, nodes

    if TEMPLATE_NAME not in text:
        return
    try:
        template = Environment().parse(text)
    except TemplateSyntaxError as error:
        raise InputError(f"is no template: {error.message}", file=file, field=field, remedy="mend the braces") from None
    known = [each.name for each in fields(Notification)]
    for access in template.find_all(nodes.Getattr):
        is_ours = isinstance(access.node, nodes.Name) and access.node.name == TEMPLATE_NAME
        if is_ours and access.attr not in known:
            raise InputError(
                f"`{TEMPLATE_NAME}.{access.attr}` is not known",
                file=file,
                field=field,
                remedy=suggest_name(access.attr, known),
            )
