"""The faults that were injected: their targets, the states that they reached, and the nodes that they keep down.

A node that is kept down cannot be healthy before the fault is healed.
"""

from __future__ import annotations

from brokerproof.experiment.fault import Fault
from brokerproof.experiment.workload import ClientRole
from brokerproof.faults.client_runtime import ClientRuntime
from brokerproof.faults.kind import Surroundings
from brokerproof.faults.registry import FAULT_KINDS, list_harmful_faults
from brokerproof.faults.stage import Stage
from brokerproof.faults.targets import list_clients
from brokerproof.run.tables import FaultState


class Injections:
    """Records and remembers every state that a fault reaches."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        # {fault: its targets}
        self.targets: dict[str, list[str]] = {}
        # {state: the faults that have reached it}. A fault stays in its earlier states.
        self._reached: dict[FaultState, set[str]] = {state: set() for state in FaultState}

    def has_reached(self, fault: str, state: FaultState) -> bool:
        return fault in self._reached[state]

    def record(self, fault: Fault, state: FaultState, evidence: str) -> None:
        """Record that a fault has reached a state, in the table `faults` and in the live status."""
        content = {"fault": fault.name, "kind": fault.kind, "targets": self.targets[fault.name], "state": state.value}
        row = {**content, "run_id": self._stage.run.run_id, "at": self._stage.clock.now_us(), "evidence": evidence}
        self._stage.run.append("faults", [row])
        self._stage.show(fault=content)
        self._reached[state].add(fault.name)

    def list_targets_in_force(self, *but: str, client: ClientRole | None = None) -> list[list[str]]:
        """Return a list of targets for each injected fault that keeps nodes down and has not recovered.

        The faults with names in `but` are left out. With `client`, only faults of clients of this role count.
        """
        scenario = self._stage.run.scenario
        kinds = {fault.name: FAULT_KINDS[fault.kind] for fault in scenario.faults}
        harmful = {name for name in list_harmful_faults(scenario) if not kinds[name].leaves_nodes}
        harm = harmful - {*but, *self._reached[FaultState.RECOVERED]}
        roles = {fault.name: fault.targets.client for fault in scenario.faults}
        return [targets for name, targets in list(self.targets.items()) if name in harm and roles[name] is client]

    def list_kept_down(self, fault: Fault) -> frozenset[str]:
        """Return the nodes that are down because of faults other than `fault`.

        A fault counts only until its healing begins. Otherwise, if two faults of one node were healed at about the same
        time, neither healing would start the node.
        """
        healing = self._reached[FaultState.HEALING]
        others = self.list_targets_in_force(fault.name, *healing, client=fault.targets.client)
        return frozenset(name for names in others for name in names)

    def make_surroundings(self, fault: Fault) -> Surroundings:
        """Return everything that the kind of a fault needs to act, including the nodes that other faults keep down.

        These nodes are determined at the time of the call, and may change later.
        """
        stage = self._stage
        clients = list_clients(fault.targets, stage.run.scenario.workload, stage.topology)
        of_clients = ClientRuntime(run=stage.run, fault=fault, clients=clients, clock=stage.clock) if clients else None
        return Surroundings(
            provisioning=stage.provisioning,
            administration=stage.administration,
            observation=stage.observation,
            runtime=stage.runtime,
            specs=of_clients.make_specs() if of_clients else stage.specs,
            clients=of_clients,
            roles=stage.system.roles,
            link=stage.link,
            fault=fault,
            kept_down=self.list_kept_down(fault),
            managed=frozenset(stage.topology.restarted_after_s),
        )
