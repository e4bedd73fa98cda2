"""Prepares this machine for a system's version before the first run of it, so that no run's time has it in it.

The version is fetched, and one node of each role is run for a moment, from which Java keeps what it learned of its
classes: a JVM then starts in half the time. A machine that cannot be prepared runs scenarios all the same, slower.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable

from brokerproof import lifecycle
from brokerproof.documents import parse
from brokerproof.drivers.base import rehearsal_for
from brokerproof.drivers.clients import clients_for
from brokerproof.errors import BrokerproofError
from brokerproof.run import Run
from brokerproof.scenario import Scenario
from brokerproof.topology import Topology

log = logging.getLogger(__name__)

_MESSAGES = 50


def prepare(system: str, version: str, say: Callable[[str], None]) -> None:
    """Do what was not done before; `say` tells what takes long.

    Raises InputError for a version that is not pinned, MachineError where it cannot be fetched.
    """
    rehearsal = rehearsal_for(system, version)
    if rehearsal.done():
        return
    say(f"fetching {system} {version}, if it is not here yet, and keeping what Java learns of it (a minute, once)")
    rehearsal.fetch()
    topology = parse(Topology, dict(rehearsal.topology), file="the rehearsal's topology")
    scenario = parse(
        Scenario,
        {
            **{"name": "rehearsal", "title": "Rehearsal", "description": "-", "topology": "rehearsal"},
            **{"version": version, "workload": {"namespace": rehearsal.namespace}},
        },
        file="the rehearsal's scenario",
    )
    with tempfile.TemporaryDirectory(prefix="brokerproof-rehearsal-") as directory:
        run = lifecycle.begin(scenario, topology, directory=f"{directory}/run", run_id="rehearsal")
        try:
            lifecycle.provision(run)
            lifecycle.configure(run)
            _talk(run)
        except BrokerproofError as error:
            log.warning("the rehearsal failed, so nodes start slower: %s", error)
        finally:
            # It keeps what Java learned, before it ends the nodes.
            lifecycle.release(run)


def _talk(run: Run) -> None:
    """Publish and receive a few messages: that has classes of its own."""
    clients = clients_for(run, next(iter(run.topology.clusters)))
    try:
        producer = clients.producer("rehearsal")
        for seq in range(_MESSAGES):
            producer.send(seq, "key", b"payload", lambda _: None)
        reader = clients.reader(-1)
        for _ in range(_MESSAGES):
            reader.read(1.0)
        reader.close()
        producer.close()
    finally:
        clients.close()
