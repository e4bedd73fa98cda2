"""A run's outcome: whether the run is what its scenario expects. The command line prints it, `record` leaves it."""

from __future__ import annotations

from pydantic import Field

from brokerproof.experiment.guarantees import Suite
from brokerproof.experiment.scenario import ExpectedOutcome
from brokerproof.experiment.verdict import Verdict
from brokerproof.run.measurement import FiniteOrNone
from brokerproof.run.records import Record
from brokerproof.run.strict_model import StrictModel

# By time, then by cluster or by way between two regions, then by quantile: milliseconds.
LatenciesByTime = dict[str, dict[str, dict[str, FiniteOrNone]]]


class Durations(StrictModel):
    """Seconds of wall time."""

    # From the trigger to the verdict, None while there is no verdict.
    total: float | None
    # The part of it that the scenario's phases take, and the rest.
    phases: float
    overhead: float | None
    # Of each step, None where its record cannot be read, and of each part of judging.
    steps: dict[str, float | None]
    judging: dict[str, float]


class Outcome(Record):
    """The result of a run, and whether and why it is what its scenario expects."""

    KIND = "outcome"

    run_id: str
    scenario: str
    topology: str
    runtime: str
    verdict: Verdict
    expected: ExpectedOutcome
    met: bool
    why: str
    suites: dict[Suite, Verdict]
    # By anomaly and metric, why the messaging system cannot be asked for it.
    not_applicable: dict[str, str] = Field(default_factory=dict)
    # The totals, and every anomaly under `legal` and under `illegal`; None where nothing was counted.
    counts: dict[str, int | dict[str, int | None] | None]
    recovery: dict[str, dict[str, FiniteOrNone]]
    latency: LatenciesByTime
    link: LatenciesByTime
    seconds: Durations
    run_dir: str
    report: str
