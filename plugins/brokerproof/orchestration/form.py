"""The form that starts a scenario, and its conversion into overrides of the scenario by dotted path, and back.

This module does not import Airflow, so that the command line can quickly put `--set` into the same form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel

from brokerproof.experiment.scenario import Phases, Scenario
from brokerproof.experiment.workload import Workload

# The field of the form that takes any override, as a JSON object by dotted path.
FREE_FORM = "settings"


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of the form, for the scenario's value at the dotted `path`. `model` is the class that defines it."""

    name: str
    path: str
    section: str
    title: str
    description: str
    model: type[BaseModel]

    def read_default(self, scenario: Scenario) -> Any:
        """Return the scenario's own value at `path`."""
        value: Any = scenario
        for part in self.path.split("."):
            value = getattr(value, part)
        return value

    def build_schema(self) -> dict[str, Any]:
        """Return the type and the limits of the value, as JSON schema."""
        schema = _read_properties(self.model)[self.path.rsplit(".", 1)[-1]]
        return {key: schema[key] for key in ("type", "minimum", "maximum", "exclusiveMinimum") if key in schema}


@cache
def _read_properties(model: type[BaseModel]) -> dict[str, Any]:
    return dict(model.model_json_schema()["properties"])


def _make_workload_field(name: str, title: str, description: str) -> Field:
    return Field(
        name=name, path=f"workload.{name}", section="Workload", title=title, description=description, model=Workload
    )


def _make_phase_field(name: str, title: str, description: str) -> Field:
    return Field(
        name=name, path=f"phases.{name}", section="Timeline", title=title, description=description, model=Phases
    )


def _make_system_field(name: str, title: str, description: str) -> Field:
    return Field(name=name, path=name, section="System", title=title, description=description, model=Scenario)


FORM = (
    _make_workload_field("rate", "Rate", "Messages per second, of all producers of one cluster together."),
    _make_workload_field("size", "Size", "Bytes of payload."),
    _make_workload_field("keys", "Keys", "Different keys; each belongs to one producer."),
    _make_phase_field("steady_s", "Steady phase", "Seconds under load before anything is broken."),
    _make_phase_field("impact_s", "Impact phase", "Seconds in which the faults happen and the system reacts."),
    _make_phase_field("recovery_s", "Recovery phase", "Seconds in which the system has to be whole again."),
    _make_system_field("runtime", "Runtime", "Where nodes live; `process` needs nothing installed."),
    _make_system_field("version", "Version", "Version of the messaging system."),
)


def read_overrides(params: Mapping[str, Any], scenario: Scenario) -> dict[str, Any]:
    """Return the overrides in a filled form: each value that differs from the scenario; free-form overrides win."""
    changed = {
        field.path: params[field.name]
        for field in FORM
        if field.name in params and params[field.name] != field.read_default(scenario)
    }
    return {**changed, **(params.get(FREE_FORM) or {})}


def fill_form(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form filled with the overrides. A path without a field of its own goes into the free-form field."""
    fields = {field.path: field.name for field in FORM}
    params = {fields[path]: value for path, value in overrides.items() if path in fields}
    free = {path: value for path, value in overrides.items() if path not in fields}
    return {**params, FREE_FORM: free} if free else params
