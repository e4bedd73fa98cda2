"""The network between two regions: its delay, jitter and bandwidth."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from brokerproof.errors import InputError
from brokerproof.experiment.yaml_models import FrozenModel


class LinkQuality(FrozenModel):
    """The delay, jitter and bandwidth of traffic in one direction."""

    delay_ms: float = Field(0, ge=0, le=60_000, description="one way")
    jitter_ms: float = Field(0, ge=0, description="the delay varies by at most this value, with equal probability")
    bandwidth_mbit: float | None = Field(
        None, gt=0, description="Mbit/s of all connections together; unlimited by default"
    )

    @model_validator(mode="after")
    def _check_jitter(self) -> Self:
        if self.jitter_ms > self.delay_ms:
            raise InputError(
                f"a jitter of {self.jitter_ms:g} ms around a delay of {self.delay_ms:g} ms",
                field="jitter_ms",
                remedy="choose a jitter that is no greater than the delay",
            )
        return self


class RegionLink(LinkQuality):
    """The network between two regions. Both directions have the same quality."""

    between: list[str] = Field(min_length=2, max_length=2, description="the two regions")
