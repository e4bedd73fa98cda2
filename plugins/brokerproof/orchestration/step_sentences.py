"""One sentence about each step of a run, with the run's own values. It is the first line of the task's log.

The logs of the suites, `record` and `verdict` begin with the result instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.run.directory import Run


def describe_step(step: str, run: Run) -> str | None:
    """Return the sentence about a step, or None if the step has no sentence.

    Raises RunError if run.json is missing or damaged, and InputError if its scenario cannot be used.
    """
    describe = _SENTENCES.get(step)
    return f"{run.run_id}: {describe(run.scenario, run.topology)}." if describe else None


def _describe_provision(scenario: Scenario, topology: Topology) -> str:
    nodes = [node for cluster in topology.clusters.values() for node in cluster.nodes.values()]
    nodes += topology.shared_metadata.values()
    regions = dict.fromkeys(node.region for node in nodes)
    return f"starts the {len(nodes)} nodes of topology {scenario.topology} in {_join(regions)}, of {topology.system}"


def _describe_configure(scenario: Scenario, topology: Topology) -> str:
    return (
        f"sets namespaces, placement and replication of {_join(topology.clusters)} as topology {scenario.topology} says"
    )


def _describe_load(scenario: Scenario, topology: Topology) -> str:
    workload = scenario.workload
    homes = workload.list_homes(topology)
    return (
        f"publishes {workload.rate:,} messages a second of {workload.size:,} bytes from {workload.producers} producers "
        f"to {_join(homes)}, for {scenario.phases.total_s:g} s from the moment that the rate is held"
    )


def _describe_consume(scenario: Scenario, topology: Topology) -> str:
    names = [subscription.name for subscription in scenario.workload.subscriptions]
    if not names:
        return "has no subscription to consume with"
    settle = f"or {scenario.settle_s:g} s have gone by since"
    return f"consumes with {_join(names)} until the load has ended and all of it is drained, {settle}"


def _describe_break_it(scenario: Scenario, topology: Topology) -> str:
    if not scenario.faults:
        return "breaks nothing: the scenario is the reference"
    start = scenario.phases.steady_s
    faults = [f"{fault.name} ({fault.kind}) at {start + fault.at_s:g} s" for fault in scenario.faults]
    return f"does {_join(faults)} after the rate is held, and undoes what has to heal"


def _describe_read_back(scenario: Scenario, topology: Topology) -> str:
    return f"reads all that is stored in {_join(topology.clusters)}, the positions of every message among it"


def _describe_verify(scenario: Scenario, topology: Topology) -> str:
    return f"compares the tables with their seals, and judges every message by `{scenario.guarantee}`"


def _describe_release(scenario: Scenario, topology: Topology) -> str:
    return "ends the nodes, the monitor and what else the run started, and gives its slot back"


_SENTENCES: Mapping[str, Callable[[Scenario, Topology], str]] = {
    "provision": _describe_provision,
    "configure": _describe_configure,
    "load": _describe_load,
    "consume": _describe_consume,
    "break_it": _describe_break_it,
    "read_back": _describe_read_back,
    "verify": _describe_verify,
    "release": _describe_release,
}


def _join(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
