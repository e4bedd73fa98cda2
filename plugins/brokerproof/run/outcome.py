"""A run's outcome: whether the run is what its scenario expects. The command line prints it, `record` leaves it."""

from __future__ import annotations

from pydantic import Field

from brokerproof.experiment.scenario import ExpectedOutcome
from brokerproof.experiment.suite_name import SuiteName
from brokerproof.experiment.verdict import Verdict
from brokerproof.run.measurement import FiniteOrNone
from brokerproof.run.records import Moment, Record
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


class NodeRestarts(StrictModel):
    """How often a node ended by itself, and was started again by its service manager."""

    node: str
    ended: int
    restarted: int
    first_ended_at: Moment
    # None where it was never started again.
    first_restarted_at: Moment | None


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
    # What was done to whom and when, and what became of the messages, in one sentence.
    story: str = ""
    # What a reader has to know of how it was judged.
    notes: tuple[str, ...] = ()
    suites: dict[SuiteName, Verdict]
    # By anomaly and metric, why the messaging system cannot be asked for it.
    not_applicable: dict[str, str] = Field(default_factory=dict)
    # The totals, and every anomaly under `legal` and under `illegal`; None where nothing was counted.
    counts: dict[str, int | dict[str, int | None] | None]
    recovery: dict[str, dict[str, FiniteOrNone]]
    # By fault and metric, the bounds in force, as (least, greatest); a metric without bounds is left out.
    bounds: dict[str, dict[str, tuple[FiniteOrNone, FiniteOrNone]]] = Field(default_factory=dict)
    latency: LatenciesByTime
    link: LatenciesByTime
    # Of the nodes that have a service manager and ended by themselves.
    restarts: tuple[NodeRestarts, ...] = ()
    seconds: Durations
    run_dir: str
    report: str
