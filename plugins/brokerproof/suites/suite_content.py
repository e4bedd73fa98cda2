"""Makes the content of the five suites' files in expectations/ from the tables of anomalies and metrics.

`make docs` writes the files. A file may be changed by hand if it does not become less strict (suite_file.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brokerproof.experiment.guarantees import Anomaly, Suite
from brokerproof.experiment.metrics import METRICS

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
    """Return the names of a suite's anomalies or, if the suite has none, of its metrics. Each needs an expectation."""
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
