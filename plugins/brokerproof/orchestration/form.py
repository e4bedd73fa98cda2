"""The form in which a scenario is started, and what it means as settings by dotted path.

Pure, so that the command line maps `--set` onto the same form without Airflow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel

from brokerproof.experiment.scenario import Phases, Scenario, Workload

FREE_FORM = "settings"


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of the form: the value at `path` of the scenario, described by its model."""

    name: str
    path: str
    section: str
    title: str
    description: str
    model: type[BaseModel]

    def default(self, scenario: Scenario) -> Any:
        """The scenario's own value."""
        value: Any = scenario
        for part in self.path.split("."):
            value = getattr(value, part)
        return value

    def schema(self) -> dict[str, Any]:
        """Type and limits as JSON schema, as the model has them."""
        known = _properties(self.model)[self.path.rsplit(".", 1)[-1]]
        return {key: known[key] for key in ("type", "minimum", "maximum", "exclusiveMinimum") if key in known}


@cache
def _properties(model: type[BaseModel]) -> dict[str, Any]:
    return dict(model.model_json_schema()["properties"])


def _workload(name: str, title: str, description: str) -> Field:
    return Field(
        name=name, path=f"workload.{name}", section="Workload", title=title, description=description, model=Workload
    )


def _phase(name: str, title: str, description: str) -> Field:
    return Field(
        name=name, path=f"phases.{name}", section="Timeline", title=title, description=description, model=Phases
    )


def _system(name: str, title: str, description: str) -> Field:
    return Field(name=name, path=name, section="System", title=title, description=description, model=Scenario)


FORM = (
    _workload("rate", "Rate", "Messages per second, of all producers of one cluster together."),
    _workload("size", "Size", "Bytes of payload."),
    _workload("keys", "Keys", "Different keys; each belongs to one producer."),
    _phase("steady_s", "Steady phase", "Seconds under load before anything is broken."),
    _phase("impact_s", "Impact phase", "Seconds in which the faults happen and the system copes."),
    _phase("recovery_s", "Recovery phase", "Seconds in which the system has to be whole again."),
    _system("runtime", "Runtime", "Where nodes live; `process` needs nothing installed."),
    _system("version", "Version", "Version of the messaging system."),
)


def settings_of(params: Mapping[str, Any], scenario: Scenario) -> dict[str, Any]:
    """The settings that a filled form asks for: what differs from the scenario, and the free-form ones, which win."""
    changed = {
        field.path: params[field.name]
        for field in FORM
        if field.name in params and params[field.name] != field.default(scenario)
    }
    return {**changed, **(params.get(FREE_FORM) or {})}


def params_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The filled form that asks for these settings; paths that have no field of their own go into the free-form one."""
    fields = {field.path: field.name for field in FORM}
    params = {fields[path]: value for path, value in settings.items() if path in fields}
    free = {path: value for path, value in settings.items() if path not in fields}
    return {**params, FREE_FORM: free} if free else params
