"""Prepares this machine for a system's version before its first run, so that no run's time includes this.

The version is fetched, and one node of each role is run for a moment, from which Java keeps what it learned of its
classes: a JVM then starts in half the time. A machine that cannot be prepared runs scenarios all the same, slower.
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
from brokerproof.systems.registry import load_system, make_clients

log = logging.getLogger(__name__)

_MESSAGES = 50


def prepare_for(scenario: Scenario, topology: Topology, say: Callable[[str], None]) -> None:
    """Prepare for a run: this machine, or, where its nodes live elsewhere, see that they can.

    Raises InputError for a version that is not pinned, MachineError where something is missing.
    """
    runtime = load_runtime(scenario.runtime)
    if issubclass(runtime, LivesElsewhere):
        runtime.require(topology)
    else:
        prepare(topology.system, scenario.version, say)


def prepare(system: str, version: str, say: Callable[[str], None]) -> None:
    """Do what is not done yet; `say` gets a sentence about what takes long.

    Raises InputError for a version that is not pinned, MachineError where it cannot be fetched.
    """
    warm_up = load_system(system).warm_up(version)
    if warm_up is None or warm_up.done():
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
        run = lifecycle.begin(scenario, topology, directory=f"{directory}/run", run_id="warm-up")
        try:
            lifecycle.provision(run)
            lifecycle.configure(run)
            _talk(run)
        except BrokerproofError as error:
            log.warning("the warm-up failed, so nodes start slower: %s", error)
        finally:
            # It keeps what Java learned, before it ends the nodes.
            lifecycle.release(run)


def _talk(run: Run) -> None:
    """Publish and receive a few messages: that has classes of its own."""
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
