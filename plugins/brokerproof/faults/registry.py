"""All kinds of fault. This module imports the modules that define kinds, and so fills `FAULT_KINDS` ({name: kind})."""

from __future__ import annotations

import brokerproof.faults.on_clients
import brokerproof.faults.on_network
import brokerproof.faults.on_nodes  # noqa: F401
from brokerproof.experiment.fault import Fault
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.faults.kind import FAULT_KINDS

__all__ = ["FAULT_KINDS", "draw_faults", "list_destroying_faults", "list_harmful_faults", "suggest_kind"]

_RESTART = (
    "a restart is `stop` with `heal_after_s: 0` or `heal_at_s`, as in `{kind: stop, targets: …, heal_after_s: 0}`"
)
# {kind: everyday words for it}
_WORDS = {
    "stop": ("shutdown", "shut_down", "sigterm", "down", "end"),
    "kill": ("crash", "die", "sigkill", "terminate", "abort", "oom", "power_loss", "power_off"),
    "destroy": ("wipe", "delete", "erase", "lose", "loss", "disk_loss", "data_loss", "disaster"),
    "start": ("boot", "power_on", "up", "add", "join", "scale_up"),
    "pause": ("freeze", "hang", "suspend", "sigstop", "stall", "stuck", "gc"),
    "fence": ("fencing", "zombie", "second_producer", "duplicate_producer", "split_producer"),
    "task_retry": ("spark_retry", "retry", "repeat", "task_failure", "executor_loss"),
    "unload": ("failover", "fail_over", "move", "transfer", "reassign", "handover"),
    "split": ("split_group", "split_bundle", "bundle_split", "divide"),
    "partition": ("network_partition", "net_split", "netsplit", "split_brain", "isolate", "cut", "disconnect"),
    "delay": ("latency", "network_delay", "slow", "lag", "jitter"),
    "bandwidth": ("throttle", "limit", "congestion"),
    "reset": ("drop_connections", "tcp_reset", "connection_reset"),
}
_REMEDIES = {
    **{word: f"it is called `{kind}`" for kind, words in _WORDS.items() for word in words},
    **dict.fromkeys(("restart", "rolling", "rolling_restart", "reboot", "bounce", "restarts", "upgrade"), _RESTART),
}


def suggest_kind(name: str) -> str:
    """Return a remedy for an unknown kind of fault: the kind for an everyday word, or else a similar name."""
    word = name.strip().lower().replace("-", "_").replace(" ", "_")
    return _REMEDIES.get(word) or suggest_name(name, FAULT_KINDS)


def list_harmful_faults(scenario: Scenario) -> list[str]:
    """Return the names of the scenario's faults that do harm."""
    return [fault.name for fault in scenario.faults if fault.kind not in FAULT_KINDS or FAULT_KINDS[fault.kind].harms]


def list_destroying_faults(scenario: Scenario) -> list[str]:
    """Return the names of the scenario's faults that wipe the data of their nodes."""
    return [fault.name for fault in scenario.faults if fault.kind in FAULT_KINDS and FAULT_KINDS[fault.kind].destroys]


def draw_faults(scenario: Scenario, seed: int) -> list[Fault]:
    """Return the faults that the scenario's `draw` gives for a seed; empty if it has none."""
    if scenario.draw is None:
        return []
    destroying = [name for name, kind in FAULT_KINDS.items() if kind.destroys]
    return scenario.draw.draw_faults(seed, scenario.phases.impact_s, destroying)
