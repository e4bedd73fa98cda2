"""Reads a suite's file. A file that checks less than it must, or that can pass without a check, is refused.

The file of a shipped suite must have an expectation about each anomaly or metric of the suite. The file of a user's
suite may have expectations about all anomalies and metrics. Both may also have standard expectations, which are Great
Expectations' own kinds (standard_expectations.py). The bounds of an expectation must not be looser than those of its
metric.

`make docs` writes the shipped files from the anomalies in guarantees.py and the metrics in metrics.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import fsspec

from brokerproof.bounded_reading import MOST_JSON_BYTES, ContentError, load_json, read_text
from brokerproof.errors import InputError, Mistakes
from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.metrics import METRICS, Metric
from brokerproof.experiment.suite_name import check_suite_name
from brokerproof.experiment.yaml_models import check_fields, suggest_name, write_value
from brokerproof.suites.written_expectation import WrittenExpectation, read_expectation

_NOTES: Mapping[Suite, str] = {
    Suite.COMPLETENESS: "What was acknowledged is there, what was never published is not. Reads `messages`.",
    Suite.UNIQUENESS: (
        "A message is stored and delivered as often as the guarantee allows, at the position that its ack named. "
        "Reads `messages`."
    ),
    Suite.ORDERING: "Messages of one producer, key and partition keep their order. Reads `messages`.",
    Suite.PLACEMENT: (
        "Copies, reads and ownership are where the topology wants them. Reads `measurements`; the scenario's bounds "
        "come with the rows, and `minimum` and `maximum` here are in force where it sets none."
    ),
    Suite.RECOVERY: (
        "The system came back in the time that the scenario allows. Reads `measurements`; the bounds are the "
        "scenario's. `required` is what has to be measured for every fault even without a bound."
    ),
}
# The version of Great Expectations for which the files are written.
_META = {"great_expectations_version": "1.24.1"}


def list_subjects(suite: Suite) -> list[str]:
    """Return the names of a shipped suite's anomalies or, if the suite has none, of its metrics.

    The suite's file needs an expectation about each of them.
    """
    anomalies = [str(anomaly) for anomaly in Anomaly if anomaly.facts.suite is suite]
    return anomalies or [name for name, metric in METRICS.items() if metric.suite is suite]


def make_suite(suite: Suite) -> dict[str, Any]:
    entries = [make_entry(name) for name in list_subjects(suite)]
    return {"name": str(suite), "notes": _NOTES[suite], "expectations": entries, "meta": dict(_META)}


def make_entry(name: str) -> dict[str, Any]:
    """Return the expectation about an anomaly or a metric, as in a suite's file."""
    metric = METRICS.get(name)
    if metric is None:
        facts = Anomaly(name).facts
        return {"type": "expect_no_illegal_anomaly", "kwargs": {"anomaly": name}, "description": facts.demand}
    kwargs: dict[str, Any] = {"metric": name}
    kwargs |= {key: bound for key in ("minimum", "maximum") if (bound := getattr(metric, key)) is not None}
    kwargs |= {"required": True} if metric.required else {}
    return {"type": "expect_measurement_within_bounds", "kwargs": kwargs, "description": metric.demand}


def begin_with_description(name: str, description: str) -> str:
    """Return the description of the expectation `name` as a sentence that another sentence can follow.

    The result is empty if the description is that of a shipped suite. Sentences about anomalies and metrics have the
    same content.
    """
    shipped = METRICS[name].demand if name in METRICS else Anomaly(name).facts.demand if name in set(Anomaly) else ""
    sentence = description.strip()
    if sentence in ("", shipped):
        return ""
    return f"{sentence} " if sentence.endswith((".", "!", "?", ":")) else f"{sentence}. "


# Great Expectations also writes an `id` into a file.
_FILE_FIELDS = frozenset({"name", "expectations", "meta", "notes", "id"})


@dataclass(frozen=True, kw_only=True)
class SuiteFile:
    """All expectations of a suite's file, or one part of them. A part is evaluated on one table."""

    path: str
    suite: str
    expectations: tuple[WrittenExpectation, ...]
    # The name of the part; empty for a whole suite. The parts are evaluated separately.
    part: str = ""

    @property
    def title(self) -> str:
        """The name of this suite, or of this part of a suite, in Great Expectations."""
        return f"{self.suite}.{self.part}" if self.part else str(self.suite)

    @property
    def content(self) -> dict[str, Any]:
        """This suite, or this part of a suite, in the format of Great Expectations.

        Each standard expectation has its name in its `meta`.
        """
        return {"name": self.title, "expectations": [_make_content(written) for written in self.expectations]}

    @property
    def on_messages(self) -> SuiteFile:
        """The part with the expectations about anomalies, which are evaluated on the table `messages`."""
        return self._select("", [written for written in self._own if written.name not in METRICS])

    @property
    def on_measurements(self) -> SuiteFile:
        """The part with the expectations about metrics, which are evaluated on the table `measurements`."""
        has_other_parts = any(written.name not in METRICS for written in self._own)
        measured = [written for written in self._own if written.name in METRICS]
        return self._select("bounds" if has_other_parts else "", measured)

    @property
    def on_tables(self) -> list[SuiteFile]:
        """The standard expectations (Great Expectations' own kinds), in one part for each table that they evaluate."""
        tables = dict.fromkeys(written.table for written in self.expectations if written.standard)
        return [
            self._select(table, [written for written in self.expectations if written.table == table])
            for table in tables
        ]

    @property
    def _own(self) -> list[WrittenExpectation]:
        return [written for written in self.expectations if written.standard is None]

    def _select(self, part: str, expectations: Sequence[WrittenExpectation]) -> SuiteFile:
        return replace(self, part=part, expectations=tuple(expectations))


def _make_content(written: WrittenExpectation) -> dict[str, Any]:
    if written.standard is None:
        return dict(written.content)
    return {**written.content, "description": written.description, "meta": {"name": written.name}}


def read_suite(directories: Sequence[str], suite: str) -> SuiteFile:
    """Return the content of a suite's file, from the first directory that has the file.

    Raises InputError if no directory has the file, or if the file cannot be used.
    """
    path = _find_file(directories, suite)
    try:
        check_suite_name(suite, path)
        return SuiteFile(path=path, suite=suite, expectations=_read_expectations(_read_json(path), suite))
    except InputError as error:
        raise error.locate(file=path) from None


def _find_file(directories: Sequence[str], suite: str) -> str:
    """Return the path of the suite's file, or its path in the last directory if no directory has it."""
    paths = [f"{directory.rstrip('/')}/{suite}.json" for directory in directories]
    return next((path for path in paths if _exists(path)), paths[-1])


def _exists(path: str) -> bool:
    system, name = fsspec.core.url_to_fs(path)
    return bool(system.exists(name))


def _read_json(path: str) -> Mapping[str, Any]:
    try:
        content = load_json(read_text(path, MOST_JSON_BYTES))
    except FileNotFoundError:
        raise InputError("no such file", remedy="restore it; no run can be judged without it") from None
    except ContentError as error:
        raise InputError(error.problem, remedy=error.remedy) from None
    if not isinstance(content, dict):
        raise InputError("holds no suite", remedy="start with `name` and `expectations`")
    return content


def _read_expectations(content: Mapping[str, Any], suite: str) -> tuple[WrittenExpectation, ...]:
    mistakes = Mistakes()
    with mistakes.collect():
        check_fields(content, _FILE_FIELDS, "", "")
    if content.get("name") != suite:
        problem = f"is `{write_value(content['name'])}`, not `{suite}`" if content.get("name") else "is missing"
        mistakes.found.append(InputError(problem, field="name", remedy=f"name the suite `{suite}`"))
    entries = content.get("expectations")
    expectations: dict[int, WrittenExpectation] = {}
    if not isinstance(entries, list) or not entries:
        remedy = "write one for each rule"
        mistakes.found.append(InputError("holds no expectation", field="expectations", remedy=remedy))
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        with mistakes.collect(below=f"expectations.{index}"):
            expectations[index] = read_expectation(entry)
    own = [expectation.name for expectation in expectations.values() if expectation.standard is None]
    mistakes.found += _list_subject_mistakes(own, suite)
    # The missing expectation may be one with a mistake.
    if suite in list(Suite) and not mistakes:
        mistakes.found += _list_missing(own, Suite(suite))
    for index, expectation in expectations.items():
        if expectation.name in METRICS:
            bounds = _list_bound_mistakes(expectation, METRICS[expectation.name])
            mistakes.found += [mistake.locate(below=f"expectations.{index}.kwargs") for mistake in bounds]
    if not mistakes:
        mistakes.found += _list_repetitions(list(expectations.values()))
    mistakes.raise_all()
    return _number_names(list(expectations.values()))


def _list_repetitions(expectations: Sequence[WrittenExpectation]) -> Iterator[InputError]:
    for index, written in enumerate(expectations):
        if any((other.name, other.content) == (written.name, written.content) for other in expectations[:index]):
            yield InputError(f"`{written.name}` is written twice", field=f"expectations.{index}", remedy="keep one")


def _number_names(expectations: Sequence[WrittenExpectation]) -> tuple[WrittenExpectation, ...]:
    """Return the expectations with unique names: the second one with the name `NAME` gets the name `NAME #2`."""
    numbered: list[WrittenExpectation] = []
    for index, written in enumerate(expectations):
        earlier = sum(other.name == written.name for other in expectations[:index])
        numbered.append(replace(written, name=f"{written.name} #{earlier + 1}") if earlier else written)
    return tuple(numbered)


def _list_subject_mistakes(names: Sequence[str], suite: str) -> Iterator[InputError]:
    """Yield an error for each of the names that is no anomaly or metric, or that occurs twice.

    The file of a shipped suite may name only the suite's own anomalies or metrics.
    """
    suites = [Suite(suite)] if suite in list(Suite) else list(Suite)
    subjects = [subject for each in suites for subject in list_subjects(each)]
    for name in dict.fromkeys(names):
        if name not in subjects:
            yield InputError(
                f"`{name}` is not judged by {suite}", field="expectations", remedy=suggest_name(name, subjects)
            )
        if names.count(name) > 1:
            yield InputError(f"two expectations are about `{name}`", field="expectations", remedy="keep one")


def _list_missing(names: Sequence[str], suite: Suite) -> Iterator[InputError]:
    """Yield an error if an anomaly or metric of the suite has no expectation."""
    if missing := [name for name in list_subjects(suite) if name not in names]:
        listed = ", ".join(f"`{name}`" for name in missing)
        yield InputError(
            f"no expectation is about {listed}",
            field="expectations",
            remedy=f"run `make docs`, or add {json.dumps(make_entry(missing[0]))}",
        )


def _list_bound_mistakes(written: WrittenExpectation, metric: Metric) -> Iterator[InputError]:
    """Yield errors if an expectation's bounds are looser than its metric's. Only a scenario may have looser ones.

    Also yield an error if the metric must always be measured, and the expectation does not require that.
    """
    if metric.minimum is not None and (written.minimum is None or written.minimum < metric.minimum):
        yield InputError(
            f"allows less than the bound of `{written.name}`, {metric.minimum:g}",
            field="minimum",
            remedy=f"write {metric.minimum:g} or more; a scenario that allows less says so under `bounds`",
        )
    if metric.maximum is not None and (written.maximum is None or written.maximum > metric.maximum):
        yield InputError(
            f"allows more than the bound of `{written.name}`, {metric.maximum:g}",
            field="maximum",
            remedy=f"write {metric.maximum:g} or less; a scenario that allows more says so under `bounds`",
        )
    if metric.required and not written.required:
        yield InputError(f"does not require that `{written.name}` is measured", field="required", remedy="write true")
