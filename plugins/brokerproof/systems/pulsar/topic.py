"""The name of a topic, as Pulsar's clients and admin REST write it: `persistent://TENANT/NAMESPACE/TOPIC`.

Pulsar calls a topic that stores no messages `non-persistent://TENANT/NAMESPACE/TOPIC`.
"""

from __future__ import annotations

from brokerproof.experiment.workload import Workload

# The second stores no messages.
SCHEMES = ("persistent", "non-persistent")


def make_full_name(workload: Workload) -> str:
    scheme = SCHEMES[0 if workload.is_stored else 1]
    return f"{scheme}://{workload.namespace}/{workload.topic}"


def parse_namespace(topic: str) -> str:
    """Return the namespace, `tenant/name`, of a topic's full name."""
    return topic.partition("://")[2].rpartition("/")[0]


def make_admin_path(topic: str) -> str:
    return f"/admin/v2/{topic.replace('://', '/', 1)}"
