"""The name of a topic, as Pulsar's clients and admin REST write it: `persistent://TENANT/NAMESPACE/TOPIC`."""

from __future__ import annotations

from brokerproof.experiment.workload import Workload

_SCHEME = "persistent://"


def make_full_name(workload: Workload) -> str:
    """Return the full name of the workload's topic, which is persistent."""
    return f"{_SCHEME}{workload.namespace}/{workload.topic}"


def parse_namespace(topic: str) -> str:
    """Return the namespace, `tenant/name`, of a topic's full name."""
    return topic.removeprefix(_SCHEME).rpartition("/")[0]


def make_admin_path(topic: str) -> str:
    return f"/admin/v2/persistent/{topic.removeprefix(_SCHEME)}"
