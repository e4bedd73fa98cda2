"""The outcome of a run: its verdict, and whether this is the result that the run's scenario expects.

The command line prints the outcome. The task `record` of the run's DAG stores it.
"""

from __future__ import annotations

from pydantic import Field

from brokerproof import clock
from brokerproof.experiment.scenario import ExpectedOutcome
from brokerproof.experiment.suite_name import SuiteName
from brokerproof.experiment.verdict import Verdict
from brokerproof.run.measurement import FiniteOrNone
from brokerproof.run.records import Moment, Record
from brokerproof.run.strict_model import StrictModel

# Milliseconds by phase or fault, then by cluster or by direction between two regions, then by quantile.
LatenciesByTime = dict[str, dict[str, dict[str, FiniteOrNone]]]


class Durations(StrictModel):
    """The durations of a run and of its steps, in seconds of wall time."""

    # From the trigger to the verdict; None while there is no verdict.
    total: float | None
    # The part of `total` that the scenario's phases take, and the rest of it.
    phases: float
    overhead: float | None
    # `steps` is by step, with None if the step's record cannot be read. `judging` is by part of judging.
    steps: dict[str, float | None]
    judging: dict[str, float]


class NodeRestarts(StrictModel):
    """How often a node ended by itself and how often its service manager restarted it."""

    node: str
    ended: int
    restarted: int
    first_ended_at: Moment
    # None if it was never restarted.
    first_restarted_at: Moment | None


class BriefOutcome(StrictModel):
    """The fields that the outcome of every run has, even of a run whose run.json cannot be read."""

    run_id: str
    scenario: str
    verdict: Verdict
    met: bool
    why: str
    run_dir: str


def make_unknown_outcome(run_id: str, scenario: str, run_dir: object, why: str) -> BriefOutcome:
    """Return the outcome `unknown` with the reason `why`, for a run whose own outcome cannot be read."""
    return BriefOutcome(
        run_id=run_id, scenario=scenario, verdict=Verdict.UNKNOWN, met=False, why=why, run_dir=str(run_dir)
    )


class FirstOutcome(Record):
    """The verdict of the first outcome of a run that was judged again, and the reason for this verdict."""

    verdict: Verdict
    why: str
    judged_again_at: Moment

    @property
    def sentence(self) -> str:
        day = f"{clock.to_utc(self.judged_again_at):%Y-%m-%d %H:%M} UTC"
        return f"This run was judged again, the last time on {day}. Its first verdict was {self.verdict}: {self.why}"


class Outcome(BriefOutcome, Record):
    """The result of a run, whether it is the one that the scenario expects (`met`), and the reason (`why`)."""

    topology: str
    runtime: str
    triggered_by: str | None = Field(None, description="the user who requested the run, or `schedule`; null if unknown")
    expected: ExpectedOutcome
    # One sentence: the faults with their targets and times, and what happened to the messages.
    story: str = ""
    # Sentences about how the run was judged, for the reader of the verdict.
    notes: tuple[str, ...] = ()
    suites: dict[SuiteName, Verdict]
    unknown_suites: dict[SuiteName, str] = Field(
        default_factory=dict,
        description="by suite that is unknown, its first reason and the number of its other unknown expectations",
    )
    # By anomaly and metric, why it does not apply to the messaging system.
    not_applicable: dict[str, str] = Field(default_factory=dict)
    # The totals, `not_sent`, and every anomaly under `legal` and under `illegal`; None if there is no judgement.
    counts: dict[str, int | dict[str, int | None] | None]
    recovery: dict[str, dict[str, FiniteOrNone]]
    # By fault and metric, the bounds in force, as (minimum, maximum); a metric without bounds is left out.
    bounds: dict[str, dict[str, tuple[FiniteOrNone, FiniteOrNone]]] = Field(default_factory=dict)
    # By fault and metric, why a metric in `recovery` has no value, with the value's limit if one is known.
    unmeasured: dict[str, dict[str, str]] = Field(default_factory=dict)
    latency: LatenciesByTime
    link: LatenciesByTime
    # Only nodes that have a service manager and ended by themselves.
    restarts: tuple[NodeRestarts, ...] = ()
    seconds: Durations
    report: str

    @property
    def sentences(self) -> str:
        """The sentences for people: whether the outcome is as expected and why, and then the story of the run."""
        return f"{self.why} {self.story}".strip()
