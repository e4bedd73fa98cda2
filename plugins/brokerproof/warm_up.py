"""Prepares this machine for a version of a messaging system, so that its first run takes no longer than later ones.

The version is fetched. Then one node of each role runs for a moment, and Java keeps an archive of its class data: a JVM
then starts in half the time. If the nodes fail, scenarios still run, only slower.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable

from brokerproof import lifecycle
from brokerproof.checks import check_topology
from brokerproof.errors import BrokerproofError
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.yaml_models import parse
from brokerproof.run.directory import Run
from brokerproof.runtimes.protocols import LivesElsewhere
from brokerproof.runtimes.registry import load_runtime
from brokerproof.systems.abilities import FetchesVersions
from brokerproof.systems.registry import load_system, make_clients

log = logging.getLogger(__name__)

_MESSAGES = 50


def prepare_for(scenario: Scenario, topology: Topology, say: Callable[[str], None]) -> None:
    """Prepare this machine for a run, or check the place where its nodes live if that is not this machine.

    Raises InputError for a version that is not pinned, MachineError if something is missing.
    """
    runtime = load_runtime(scenario.runtime)
    if issubclass(runtime, LivesElsewhere):
        runtime.require(topology)
    else:
        prepare(topology.system, scenario.version, say)


def prepare(system: str, version: str, say: Callable[[str], None]) -> None:
    """Fetch the version and run its warm-up, unless both are done. `say` gets a sentence before the slow part.

    Raises InputError for a version that is not pinned, MachineError if it cannot be fetched.
    """
    found = load_system(system)
    if not isinstance(found, FetchesVersions):
        return
    warm_up = found.warm_up(version)
    if warm_up.done():
        return
    say(f"fetching {system} {version}, if it is not here yet, and keeping what Java learns of it (a minute, once)")
    warm_up.fetch()
    topology = check_topology(parse(Topology, dict(warm_up.topology), file="the warm-up's topology"))
    scenario = parse(
        Scenario,
        {
            **{"name": "warm_up", "title": "Warm-up", "description": "-", "topology": "warm_up"},
            **{"version": version, "workload": warm_up.workload},
        },
        file="the warm-up's scenario",
    )
    with tempfile.TemporaryDirectory(prefix="brokerproof-warm-up-") as directory:
        run = lifecycle.reserve(scenario, topology, directory=f"{directory}/run", run_id="warm-up")
        try:
            lifecycle.provision(run)
            lifecycle.configure(run)
            _talk(run)
        except BrokerproofError as error:
            log.warning("the warm-up failed, so nodes start slower: %s", error)
        finally:
            # Keeps the nodes' class data before it ends them.
            lifecycle.release(run)


def _talk(run: Run) -> None:
    """Publish and read `_MESSAGES` messages, so that Java also loads the classes for this."""
    clients = make_clients(run, next(iter(run.topology.clusters)))
    try:
        producer = clients.producer("warm-up")
        for seq in range(_MESSAGES):
            producer.send(seq, "key", b"payload", lambda _: None)
        reader = clients.reader(-1)
        for _ in range(_MESSAGES):
            reader.read(1.0)
        reader.close()
        producer.close()
    finally:
        clients.close()
