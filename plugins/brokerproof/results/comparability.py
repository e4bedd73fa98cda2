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
from typing import Any, Literal

from brokerproof.errors import shorten
from brokerproof.run.strict_model import StrictModel

_SCENARIO_FIELDS = ("name", "workload", "phases", "faults", "settings", "settle_s", "owner", "runtime", "late_after_s")
_TOPOLOGY_FIELDS = ("system", "clusters", "shared_metadata", "links", "settings")
_NOT_SET = "not set"


def select_comparable(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a run's `scenario`, `topology` and `machine` that must be equal in comparable runs.

    Fields that are null, false or empty are left out, so that runs from before a field was added stay comparable. In a
    new field, such a value must therefore mean the earlier behaviour.
    """
    selected = _select_fields(parameters)
    return {**selected, **{name: _drop_empty(selected[name]) for name in ("scenario", "topology")}}


def _select_fields(parameters: Mapping[str, Any]) -> dict[str, Any]:
    scenario, topology = parameters["scenario"], parameters["topology"]
    return {
        "scenario": {name: scenario.get(name) for name in _SCENARIO_FIELDS},
        "topology": {name: topology.get(name) for name in _TOPOLOGY_FIELDS},
        "machine": parameters.get("machine"),
    }


def describe_machine() -> dict[str, Any]:
    """Return the properties of this machine in the form of `machine` in a run's parameters."""
    return {"architecture": os.uname().machine, "processors": os.cpu_count()}


def compute_digest(parameters: Mapping[str, Any]) -> str:
    """Return a digest as hexadecimal text. Two runs have the same digest if and only if they are comparable."""
    return hashlib.sha256(json.dumps(select_comparable(parameters), sort_keys=True, default=str).encode()).hexdigest()


class Difference(StrictModel):
    """A field, such as `scenario.workload.rate`, with its different values in two mappings.

    `absent_in` names the mapping that lacks the field; its value is None then. A value that is null is None, too, but
    its field is not absent.
    """

    field: str
    a: Any
    b: Any
    absent_in: Literal["a", "b"] | None = None

    @property
    def texts(self) -> tuple[str, str]:
        """The two values as text. `not set` means that the field is absent."""
        text_a, text_b = _write_value(self.a), _write_value(self.b)
        return (_NOT_SET if self.absent_in == "a" else text_a), (_NOT_SET if self.absent_in == "b" else text_b)

    def __str__(self) -> str:
        return f"{self.field} {' → '.join(shorten(text, 60) for text in self.texts)}"


def list_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield each field in which two mappings differ. An absent field differs from null, false, 0 and empty values.

    An item of a list of mappings has its index as its name. If one side lacks the whole mapping around a field, such as
    a fault, the field is left out if it is null or an empty list or mapping.
    """
    return _compare(a, b, "")


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
    differences = list_parameter_differences(_select_fields(a), _select_fields(b))
    return [str(one) for one in differences if not (_is_empty(one.a) and _is_empty(one.b))]


_ABSENT = object()


def _compare(a: Any, b: Any, path: str) -> Iterator[Difference]:
    fields_a, fields_b = _find_fields(a), _find_fields(b)
    is_one_without = fields_a is None or fields_b is None
    if not (fields_a or fields_b) or any(
        fields is None and value is not _ABSENT and not _is_empty(value)
        for fields, value in ((fields_a, a), (fields_b, b))
    ):
        # For Python, false equals 0.
        if a != b or isinstance(a, bool) is not isinstance(b, bool):
            absent_in: Literal["a", "b"] | None = "a" if a is _ABSENT else "b" if b is _ABSENT else None
            known_a, known_b = (None if value is _ABSENT else value for value in (a, b))
            yield Difference(field=path, a=known_a, b=known_b, absent_in=absent_in)
        return
    fields_a, fields_b = fields_a or {}, fields_b or {}
    for name in dict.fromkeys([*fields_a, *fields_b]):
        value_a, value_b = fields_a.get(name, _ABSENT), fields_b.get(name, _ABSENT)
        if not (is_one_without and any(value in (None, [], {}) for value in (value_a, value_b))):
            yield from _compare(value_a, value_b, f"{path}.{name}" if path else str(name))


def _find_fields(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a mapping, or the items of a list of mappings by index; None for any other value."""
    if isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        return {str(index): each for index, each in enumerate(value)}
    return value if isinstance(value, Mapping) else None


def _is_empty(value: Any) -> bool:
    """Return whether a value is null, false or empty. 0 is not empty."""
    return not value and (value is False or value != 0)


def _drop_empty(value: Any) -> Any:
    """Return a JSON value without its null, false and empty fields, at any depth. A field that is 0 stays."""
    if isinstance(value, Mapping):
        fields = {name: _drop_empty(each) for name, each in value.items()}
        return {name: each for name, each in fields.items() if not _is_empty(each)}
    return [_drop_empty(each) for each in value] if isinstance(value, list) else value


def _write_value(value: Any) -> str:
    """Return a value as in JSON. A text has quotes only if it could be mistaken for another value."""
    if isinstance(value, str) and value not in ("", "true", "false", "null", _NOT_SET):
        return value
    return json.dumps(value, default=str, ensure_ascii=False)
