"""Which runs of a scenario are comparable: the parameters that must be equal, and a digest of them.

These parameters decide the load, how much of the cluster a fault affects, and how fast everything is, so they must be
equal:

- scenario, messaging system and runtime
- the machine's processor architecture and number of processors
- topology: nodes, placement, quorums and policies
- workload: rate, size, keys, clients and subscriptions
- phases, faults, system settings, longest settling time, expected topic owner, and the time after which a message is
  late

Versions may differ: a comparison is meant to find upgrades that make a run worse. Guarantee, bounds and expectations
may differ because they only judge; titles and tags, because they only describe.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from brokerproof.errors import shorten
from brokerproof.run.strict_model import StrictModel

_SCENARIO_FIELDS = ("name", "workload", "phases", "faults", "settings", "settle_s", "owner", "runtime", "late_after_s")
_TOPOLOGY_FIELDS = ("system", "clusters", "shared_metadata", "links", "settings")


def select_comparable(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a run's `scenario`, `topology` and `machine` that must be equal in comparable runs.

    Fields that are null, false or empty are left out, so that runs from before a field was added stay comparable. In a
    new field, such a value must therefore mean the earlier behaviour.
    """
    scenario, topology = parameters["scenario"], parameters["topology"]
    return {
        "scenario": _drop_empty({name: scenario.get(name) for name in _SCENARIO_FIELDS}),
        "topology": _drop_empty({name: topology.get(name) for name in _TOPOLOGY_FIELDS}),
        "machine": parameters.get("machine"),
    }


def describe_machine() -> dict[str, Any]:
    """Return the properties of this machine in the form of `machine` in a run's parameters."""
    return {"architecture": os.uname().machine, "processors": os.cpu_count()}


def compute_digest(parameters: Mapping[str, Any]) -> str:
    """Return a digest as hexadecimal text. Two runs have the same digest if and only if they are comparable."""
    return hashlib.sha256(json.dumps(select_comparable(parameters), sort_keys=True, default=str).encode()).hexdigest()


class Difference(StrictModel):
    """A field, such as `scenario.workload.rate`, with its different values in two mappings. None means not set."""

    field: str
    a: Any
    b: Any

    def __str__(self) -> str:
        return f"{self.field} {_abbreviate(self.a)} → {_abbreviate(self.b)}"


def list_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield each field in which two mappings differ. Null, false and empty values count as not set."""
    flat_a, flat_b = dict(_flatten(a)), dict(_flatten(b))
    for field in dict.fromkeys([*flat_a, *flat_b]):
        if flat_a.get(field) != flat_b.get(field):
            yield Difference(field=field, a=flat_a.get(field), b=flat_b.get(field))


def list_parameter_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the differences of two runs' parameters.

    A difference of a topology's field is left out if the scenario's field of the same name has the same difference.
    """
    differences = list(list_differences(a, b))
    for one in differences:
        repeated = one.model_copy(update={"field": one.field.replace("topology.", "scenario.", 1)})
        if not one.field.startswith("topology.") or repeated not in differences:
            yield one


def describe_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """Return the differences that make two runs incomparable, each as `field a → b`."""
    return [str(one) for one in list_parameter_differences(select_comparable(a), select_comparable(b))]


def _flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted field, value) for each innermost value. An item of a list of mappings has its index as its name.

    Null, false and empty values are left out.
    """
    if isinstance(value, Mapping):
        items = list(value.items())
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        items = list(enumerate(value))
    else:
        if value or (value == 0 and value is not False):
            yield path, value
        return
    for name, each in items:
        yield from _flatten(each, f"{path}.{name}" if path else str(name))


def _drop_empty(value: Any) -> Any:
    """Return a JSON value without its null, false and empty fields, at any depth. A field that is 0 stays."""
    if isinstance(value, Mapping):
        fields = {name: _drop_empty(each) for name, each in value.items()}
        return {name: each for name, each in fields.items() if each or (each == 0 and each is not False)}
    return [_drop_empty(each) for each in value] if isinstance(value, list) else value


def _abbreviate(value: Any) -> str:
    if value is None:
        return "unset"
    text = json.dumps(value, default=str, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
    return shorten(text, 60)
