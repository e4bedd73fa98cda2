"""The model of a measurement, which the table `measurements`, the judgement and the history share.

Only this module defines the columns of a measurement. Those of the table and of the history must match them.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from brokerproof.experiment.guarantees import Suite
from brokerproof.run.strict_model import StrictModel


def _drop_non_finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


# NaN and infinity, which JSON does not have, become None: not measured.
FiniteOrNone = Annotated[float | None, BeforeValidator(_drop_non_finite)]


class Measurement(StrictModel):
    """One measured value of a metric, with the bounds in force."""

    run_id: str = Field(description="the run's id")
    suite: Suite = Field(description="the suite that judges it; empty if none does")
    metric: str = Field(description="name of the metric, see measurements.md")
    subject: str = Field(description="the fault, phase, region, … that was measured")
    value: FiniteOrNone = Field(description="null if it could not be measured: with a bound `unknown`, never `passed`")
    unit: str = Field(description="unit of the values and bounds, see measurements.md")
    minimum: FiniteOrNone = Field(description="the bound from below that is in force")
    maximum: FiniteOrNone = Field(description="the bound from above that is in force")
    evidence: str = Field(description="what the value rests on, or why there is none")
    doubt: str | None = Field(
        None,
        description="why no bound is claimed: the fault's targets were known only from an earlier answer, or the run "
        "shows less than its scenario is about",
    )
    at_least: FiniteOrNone = Field(
        None, description="lower limit of the value, if the wait for its end was cut off or clients added to it"
    )
    at_most: FiniteOrNone = Field(
        None, description="upper limit of the value, if clients added to it; null for an exact value"
    )
    cut_off_by: str | None = Field(
        None, description="the fault that took effect before it was measured; without a bound it then decides nothing"
    )
