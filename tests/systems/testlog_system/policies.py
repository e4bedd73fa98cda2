"""What a topology's file may say beside the nodes of a cluster of the log server."""

from __future__ import annotations

from brokerproof.experiment.topology import Cluster
from brokerproof.experiment.yaml_models import FrozenModel, parse
from pydantic import Field
from testlog.misbehaviour import Misbehaviour


class ServerPolicies(FrozenModel):
    """What is wrong with the servers of a cluster, if anything is."""

    misbehaviour: Misbehaviour | None = Field(None, description="what servers do to messages that they acknowledged")
    misbehaviour_every: int = Field(100, ge=1, description="it does so to one message of so many")
    refuses_producers: bool = Field(False, description="clients of the cluster get no producer")


def parse_policies(cluster: Cluster) -> ServerPolicies:
    """A cluster's policies. Raises InputError, its field inside the cluster."""
    return parse(ServerPolicies, cluster.policies, file="")
