"""A measurement: the row of the table `measurements`, of the judgement and of the history.

Its columns are defined here and nowhere else. The table's schema is made from them, and the columns of the history's
database are checked against them.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from brokerproof.experiment.guarantees import Suite
from brokerproof.run.strict_model import StrictModel


def _drop_non_finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


# NaN and infinity, which JSON does not have, become what they mean: not measured.
FiniteOrNone = Annotated[float | None, BeforeValidator(_drop_non_finite)]


class Measurement(StrictModel):
    """One measured thing, with the bounds that the scenario sets."""

    run_id: str
    suite: Suite
    metric: str = Field(description="name of the metric, see measurements.md")
    subject: str = Field(description="the fault, phase, region, … that was measured")
    value: FiniteOrNone = Field(
        description="null where it could not be measured: with a bound `unknown`, never `passed`"
    )
    unit: str
    minimum: FiniteOrNone = Field(description="the bound from below that is in force")
    maximum: FiniteOrNone = Field(description="the bound from above that is in force")
    evidence: str = Field(description="what the value rests on, or why there is none")
    doubt: str | None = Field(
        None, description="why no bound of the value is claimed, of a fault whose targets were known only from before"
    )
    cut_off_by: str | None = Field(
        None,
        description="the fault that took effect before it was measured; without a bound it then decides nothing",
    )
