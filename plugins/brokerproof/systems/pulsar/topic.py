"""The name of a topic, as Pulsar's clients and admin REST write it: `persistent://TENANT/NAMESPACE/TOPIC`."""

from __future__ import annotations

from brokerproof.experiment.workload import Workload

_SCHEME = "persistent://"


def full_name(workload: Workload) -> str:
    """A persistent topic of the workload's namespace."""
    return f"{_SCHEME}{workload.namespace}/{workload.topic}"


def namespace_of(topic: str) -> str:
    """The namespace, `tenant/name`, of a topic's full name."""
    return topic.removeprefix(_SCHEME).rpartition("/")[0]


def admin_path(topic: str) -> str:
    """Where the admin REST has the topic."""
    return f"/admin/v2/persistent/{topic.removeprefix(_SCHEME)}"
