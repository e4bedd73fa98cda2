"""Reads a suite file of expectations/ and refuses one that would say yes for want of a question."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import fsspec
from brokerproof.errors import InputError, shorten
from brokerproof.experiment.guarantees import DEFINITIONS, Suite
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.yaml_models import suggest_name

# The kinds of expectation, each with the keyword that says what it is about, and all keywords it takes. Nothing else
# is let through: `row_condition`, `mostly` and `result_format` can each turn a no into a yes.
KINDS: Mapping[str, tuple[str, frozenset[str]]] = {
    "expect_no_illegal_anomaly": ("anomaly", frozenset({"anomaly"})),
    "expect_measurement_within_bounds": ("metric", frozenset({"metric", "minimum", "maximum", "required"})),
}
_ENTRY_FIELDS = frozenset({"type", "kwargs", "description", "meta", "notes"})
_FILE_FIELDS = frozenset({"name", "expectations", "meta", "notes"})


@dataclass(frozen=True, kw_only=True)
class Written:
    """An expectation as it is written in the file; `name` is the anomaly or the metric that it is about."""

    name: str
    kind: str
    description: str
    kwargs: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class SuiteFile:
    """A suite as it is written, with the file's own content for Great Expectations."""

    path: str
    suite: Suite
    expectations: tuple[Written, ...]
    content: Mapping[str, Any]


def subjects(suite: Suite) -> list[str]:
    """What a suite has to hold an expectation about: its anomalies, or its metrics."""
    anomalies = [str(anomaly) for anomaly, definition in DEFINITIONS.items() if definition.suite is suite]
    return anomalies or [name for name, metric in METRICS.items() if metric.suite is suite]


def read_suite(directory: str, suite: Suite) -> SuiteFile:
    """The suite's file in the directory. Raises InputError where it could not be trusted to ask everything."""
    path = f"{directory.rstrip('/')}/{suite}.json"
    content = _read_json(path)
    _only_known(content, _FILE_FIELDS, path, "")
    if content.get("name") != suite:
        name = shorten(repr(content.get("name")))
        raise InputError(f"is {name}, not `{suite}`", file=path, field="name", remedy="name the suite")
    entries = content.get("expectations")
    if not isinstance(entries, list) or not entries:
        raise InputError("holds no expectation", file=path, field="expectations", remedy="write one a rule")
    written = tuple(_entry(entry, path, f"expectations.{index}") for index, entry in enumerate(entries))
    _complete([expectation.name for expectation in written], subjects(suite), path, suite)
    return SuiteFile(path=path, suite=suite, expectations=written, content=content)


def _read_json(path: str) -> Mapping[str, Any]:
    try:
        with fsspec.open(path, "r", encoding="utf-8") as file:
            content = json.load(file)
    except FileNotFoundError:
        raise InputError("no such file", file=path, remedy="restore it; nothing can be judged without") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not valid JSON: {error}", file=path, remedy="mend the syntax") from None
    if not isinstance(content, dict):
        raise InputError("holds no suite", file=path, remedy="start with `name` and `expectations`")
    return content


def _entry(entry: Any, path: str, field: str) -> Written:
    if not isinstance(entry, dict):
        raise InputError("is no expectation", file=path, field=field, remedy="give `type`, `kwargs` and `description`")
    _only_known(entry, _ENTRY_FIELDS, path, field)
    kind = str(entry.get("type"))
    if kind not in KINDS:
        raise InputError(
            f"no kind of expectation is called `{kind}`",
            file=path,
            field=f"{field}.type",
            remedy=suggest_name(kind, KINDS),
        )
    about, keywords = KINDS[kind]
    kwargs = entry.get("kwargs")
    if not isinstance(kwargs, dict) or not isinstance(kwargs.get(about), str):
        raise InputError(f"does not say its `{about}`", file=path, field=f"{field}.kwargs", remedy="add it")
    _only_known(kwargs, keywords, path, f"{field}.kwargs")
    for name in ("minimum", "maximum"):
        if name in kwargs and not _is_number(kwargs[name]):
            value = shorten(repr(kwargs[name]))
            raise InputError(f"is no number: {value}", file=path, field=f"{field}.kwargs.{name}", remedy="give one")
    if not isinstance(kwargs.get("required", False), bool):
        raise InputError(
            "is not true or false", file=path, field=f"{field}.kwargs.required", remedy="write true or false"
        )
    description = entry.get("description")
    if not isinstance(description, str) or not description.strip():
        raise InputError("is missing", file=path, field=f"{field}.description", remedy="say what must hold")
    return Written(name=kwargs[about], kind=kind, description=description, kwargs=kwargs)


def _is_number(value: Any) -> bool:
    """Whether it is a number that bounds something; Python's JSON reads NaN and Infinity too."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _only_known(content: Mapping[str, Any], known: frozenset[str], path: str, field: str) -> None:
    for name in content:
        if name not in known:
            where = ".".join(part for part in (field, name) if part)
            raise InputError(f"unknown field `{name}`", file=path, field=where, remedy=suggest_name(name, known))


def _complete(names: list[str], needed: list[str], path: str, suite: Suite) -> None:
    for name in names:
        if name not in needed:
            raise InputError(
                f"`{name}` is not judged by {suite}", file=path, field="expectations", remedy=suggest_name(name, needed)
            )
        if names.count(name) > 1:
            raise InputError(f"two expectations are about `{name}`", file=path, field="expectations", remedy="keep one")
    if missing := [name for name in needed if name not in names]:
        names_missing = ", ".join(f"`{name}`" for name in missing)
        raise InputError(f"no expectation is about {names_missing}", file=path, field="expectations", remedy="add it")
