"""Reads a suite file of expectations/, and refuses one that asks for less than the tables of anomalies and metrics.

A suite that leaves an expectation out would pass without it. So a file holds an expectation about every anomaly or
metric of its suite, and its bounds are those of the metric or stricter ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fsspec
from brokerproof.errors import InputError, shorten
from brokerproof.experiment.guarantees import Suite
from brokerproof.experiment.metrics import METRICS, Metric
from brokerproof.experiment.yaml_models import suggest_name

from brokerproof_judging.suites.suite_content import list_subjects, make_entry

# The kinds of expectation, each with the keyword that says what it is about, and all keywords it takes. Nothing else
# is let through: `row_condition`, `mostly` and `result_format` can each turn a no into a yes.
EXPECTATION_KINDS: Mapping[str, tuple[str, frozenset[str]]] = {
    "expect_no_illegal_anomaly": ("anomaly", frozenset({"anomaly"})),
    "expect_measurement_within_bounds": ("metric", frozenset({"metric", "minimum", "maximum", "required"})),
}
_ENTRY_FIELDS = frozenset({"type", "kwargs", "description", "meta", "notes"})
_FILE_FIELDS = frozenset({"name", "expectations", "meta", "notes"})


@dataclass(frozen=True, kw_only=True)
class WrittenExpectation:
    """An expectation as it is written in the file; `name` is the anomaly or the metric that it is about."""

    name: str
    description: str
    content: Mapping[str, Any]

    @property
    def minimum(self) -> float | None:
        """The bound from below that is in force where the scenario sets none."""
        return self.content["kwargs"].get("minimum")

    @property
    def maximum(self) -> float | None:
        """The bound from above that is in force where the scenario sets none."""
        return self.content["kwargs"].get("maximum")

    @property
    def required(self) -> bool:
        """Whether it has to be measured even where nothing bounds it."""
        return bool(self.content["kwargs"].get("required"))


@dataclass(frozen=True, kw_only=True)
class SuiteFile:
    """A suite as it is written."""

    path: str
    suite: Suite
    expectations: tuple[WrittenExpectation, ...]

    @property
    def content(self) -> dict[str, Any]:
        """The suite as Great Expectations takes it."""
        return {"name": str(self.suite), "expectations": [dict(written.content) for written in self.expectations]}


def read_suite(directory: str, suite: Suite) -> SuiteFile:
    """The suite's file in the directory. Raises InputError where it asks for less than it must."""
    path = f"{directory.rstrip('/')}/{suite}.json"
    content = _read_json(path)
    _check_fields(content, _FILE_FIELDS, path, "")
    if content.get("name") != suite:
        name = shorten(repr(content.get("name")))
        raise InputError(f"is {name}, not `{suite}`", file=path, field="name", remedy="name the suite")
    entries = content.get("expectations")
    if not isinstance(entries, list) or not entries:
        raise InputError("holds no expectation", file=path, field="expectations", remedy="write one a rule")
    expectations = tuple(_read_entry(entry, path, f"expectations.{index}") for index, entry in enumerate(entries))
    _check_complete([expectation.name for expectation in expectations], suite, path)
    for index, expectation in enumerate(expectations):
        if expectation.name in METRICS:
            _check_bounds(expectation, METRICS[expectation.name], path, f"expectations.{index}.kwargs")
    return SuiteFile(path=path, suite=suite, expectations=expectations)


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


def _read_entry(entry: Any, path: str, field: str) -> WrittenExpectation:
    if not isinstance(entry, dict):
        raise InputError("is no expectation", file=path, field=field, remedy="give `type`, `kwargs` and `description`")
    _check_fields(entry, _ENTRY_FIELDS, path, field)
    kind = str(entry.get("type"))
    if kind not in EXPECTATION_KINDS:
        raise InputError(
            f"no kind of expectation is called `{kind}`",
            file=path,
            field=f"{field}.type",
            remedy=suggest_name(kind, EXPECTATION_KINDS),
        )
    about, keywords = EXPECTATION_KINDS[kind]
    kwargs = entry.get("kwargs")
    if not isinstance(kwargs, dict) or not isinstance(kwargs.get(about), str):
        raise InputError(f"does not say its `{about}`", file=path, field=f"{field}.kwargs", remedy="add it")
    _check_fields(kwargs, keywords, path, f"{field}.kwargs")
    for name in ("minimum", "maximum"):
        if name in kwargs and not _is_finite_number(kwargs[name]):
            value = shorten(repr(kwargs[name]))
            raise InputError(f"is no number: {value}", file=path, field=f"{field}.kwargs.{name}", remedy="give one")
    if not isinstance(kwargs.get("required", False), bool):
        raise InputError(
            "is not true or false", file=path, field=f"{field}.kwargs.required", remedy="write true or false"
        )
    description = entry.get("description")
    if not isinstance(description, str) or not description.strip():
        raise InputError("is missing", file=path, field=f"{field}.description", remedy="say what must hold")
    return WrittenExpectation(name=kwargs[about], description=description, content=entry)


def _is_finite_number(value: Any) -> bool:
    """Whether it is a number that bounds something; Python's JSON reads NaN and Infinity too."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _check_fields(content: Mapping[str, Any], known: frozenset[str], path: str, field: str) -> None:
    for name in content:
        if name not in known:
            where = ".".join(part for part in (field, name) if part)
            raise InputError(f"unknown field `{name}`", file=path, field=where, remedy=suggest_name(name, known))


def _check_complete(names: Sequence[str], suite: Suite, path: str) -> None:
    """Every anomaly or metric of the suite has one expectation, and no other has."""
    subjects = list_subjects(suite)
    for name in names:
        if name not in subjects:
            raise InputError(
                f"`{name}` is not judged by {suite}",
                file=path,
                field="expectations",
                remedy=suggest_name(name, subjects),
            )
        if names.count(name) > 1:
            raise InputError(f"two expectations are about `{name}`", file=path, field="expectations", remedy="keep one")
    if missing := [name for name in subjects if name not in names]:
        listed = ", ".join(f"`{name}`" for name in missing)
        raise InputError(
            f"no expectation is about {listed}",
            file=path,
            field="expectations",
            remedy=f"run `make docs`, or add {json.dumps(make_entry(missing[0]))}",
        )


def _check_bounds(written: WrittenExpectation, metric: Metric, path: str, field: str) -> None:
    """A file may be stricter than the metric's own bounds, and not looser: only a scenario may allow more."""
    if metric.minimum is not None and (written.minimum is None or written.minimum < metric.minimum):
        raise InputError(
            f"allows less than the bound of `{written.name}`, {metric.minimum:g}",
            file=path,
            field=f"{field}.minimum",
            remedy=f"write {metric.minimum:g} or more; a scenario that allows less says so under `bounds`",
        )
    if metric.maximum is not None and (written.maximum is None or written.maximum > metric.maximum):
        raise InputError(
            f"allows more than the bound of `{written.name}`, {metric.maximum:g}",
            file=path,
            field=f"{field}.maximum",
            remedy=f"write {metric.maximum:g} or less; a scenario that allows more says so under `bounds`",
        )
    if metric.required and not written.required:
        raise InputError(
            f"does not require that `{written.name}` is measured",
            file=path,
            field=f"{field}.required",
            remedy="write true",
        )
