"""The fields that a cluster of the log server has next to `nodes` in a topology's file."""

from __future__ import annotations

from brokerproof.experiment.topology import Cluster
from brokerproof.experiment.yaml_models import FrozenModel, parse
from pydantic import Field
from testlog.misbehaviour import Misbehaviour


class ServerPolicies(FrozenModel):
    """The deliberate defects of a cluster's servers. By default they have none."""

    misbehaviour: Misbehaviour | None = Field(None, description="what servers do to messages that they acknowledged")
    misbehaviour_every: int = Field(100, ge=1, description="it does so to one message of so many")
    refuses_producers: bool = Field(False, description="clients of the cluster get no producer")
    never_ready: bool = Field(False, description="the servers never count as ready")


def parse_policies(cluster: Cluster) -> ServerPolicies:
    """Return a cluster's policies. Raises InputError, whose field is relative to the cluster, if one is unusable."""
    return parse(ServerPolicies, cluster.policies, file="")
