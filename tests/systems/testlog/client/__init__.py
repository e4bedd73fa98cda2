"""The library for clients of the log server: `LogCluster` finds the leader, and the other classes ask it.

Only one thread may use an object, except for `LogProducer.send` and `LogCluster`, which any thread may use.
"""

from testlog.client.admin import LogAdmin, NodeStatus, PartitionStatus, SubscriptionStatus
from testlog.client.cluster import LogCluster
from testlog.client.connection import RequestError, UnavailableError
from testlog.client.consumer import LogConsumer
from testlog.client.cursor import Delivery
from testlog.client.producer import LogProducer, PublishOutcome, Settlement
from testlog.client.reader import LogReader

__all__ = [
    "Delivery",
    "LogAdmin",
    "LogCluster",
    "LogConsumer",
    "LogProducer",
    "LogReader",
    "NodeStatus",
    "PartitionStatus",
    "PublishOutcome",
    "RequestError",
    "Settlement",
    "SubscriptionStatus",
    "UnavailableError",
]
