"""The library for clients of the log server: `Cluster` finds the leader, and the others ask it.

Each object belongs to one thread, but for `Producer.send`, which any thread may call.
"""

from testlog.client.admin import Admin, NodeStatus, PartitionStatus, SubscriptionStatus
from testlog.client.cluster import Cluster
from testlog.client.connection import RequestError, UnavailableError
from testlog.client.consumer import Consumer
from testlog.client.cursor import Delivery
from testlog.client.producer import Producer, PublishOutcome, Settlement
from testlog.client.reader import Reader

__all__ = [
    "Admin",
    "Cluster",
    "Consumer",
    "Delivery",
    "NodeStatus",
    "PartitionStatus",
    "Producer",
    "PublishOutcome",
    "Reader",
    "RequestError",
    "Settlement",
    "SubscriptionStatus",
    "UnavailableError",
]
