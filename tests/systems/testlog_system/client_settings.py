"""The settings of the log server's clients in a scenario."""

from __future__ import annotations

from brokerproof.experiment.workload import ClientSettings
from pydantic import Field


class LogClientSettings(ClientSettings):
    answer_timeout_s: float = Field(2, gt=0, description="a node that owes an answer for this time counts as gone")
