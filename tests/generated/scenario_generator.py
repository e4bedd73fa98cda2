"""Makes valid scenarios at random, each from a seed.

What may appear in a scenario is asked of the models, of the registry of faults, and of the abilities and roles of the
topology's system, never of the system's name. What `load_scenario` refuses is made anew, and the refusals are kept. The
same seed always makes the same file.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from brokerproof.checks import load_scenario, load_topology
from brokerproof.directories import Directories
from brokerproof.errors import InputError
from brokerproof.experiment.abilities import Ability
from brokerproof.experiment.fault import GROW, QUIET, TASK_RETRY, ClientMoment, Direction
from brokerproof.experiment.guarantees import MISSING, Anomaly, Guarantee, SubscriptionType
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.workload import ClientRole, Commit, OnRestart, Streaming, Workload
from brokerproof.faults.kind import FaultKind
from brokerproof.faults.on_network import LinkFaultKind
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.runtimes.registry import runtimes_that_can
from brokerproof.systems.abilities import find_abilities
from brokerproof.systems.destinations import list_reached
from brokerproof.systems.protocols import System
from brokerproof.systems.registry import find_system
from brokerproof.systems.roles import coordinates

# A seed that is refused so often has found a rule that the generator should know.
_ATTEMPTS = 200
_NODE_NAMES = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "node-7", "x", "the-last-one-of-them")


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long the phases are and how much is published, each as the least and the greatest value."""

    steady_s: tuple[float, float]
    impact_s: tuple[float, float]
    recovery_s: tuple[float, float]
    settle_s: tuple[float, float]
    rate: tuple[int, int] = (50, 500)
    # The share of subscriptions whose consumer is a streaming query: a JVM that takes ten seconds or more to start.
    streaming: float = 0.0


# For a system that is up within a second and fails over within three.
QUICK = Pace(steady_s=(1, 2), impact_s=(4, 10), recovery_s=(1, 3), settle_s=(3, 8))
# For a system whose sessions last half a minute.
SLOW = Pace(steady_s=(10, 20), impact_s=(60, 120), recovery_s=(15, 30), settle_s=(90, 150), streaming=0.05)
# For such a system with sessions of eight seconds.
BRISK = Pace(steady_s=(5, 8), impact_s=(30, 60), recovery_s=(8, 12), settle_s=(30, 60))
PACES = {"quick": QUICK, "brisk": BRISK, "slow": SLOW}


@dataclass(frozen=True, kw_only=True)
class GeneratedScenario:
    """A valid scenario: what its file holds, and the sentences with which earlier attempts were refused."""

    seed: int
    content: dict[str, Any]
    refusals: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the scenario and of its file."""
        return name_scenario(self.seed)

    @property
    def text(self) -> str:
        """The file."""
        return yaml.dump(self.content, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)


def name_scenario(seed: int) -> str:
    """The name of the scenario of a seed."""
    return f"generated_{seed}"


def generate_scenario(
    seed: int,
    topologies: Sequence[str],
    directories: Directories,
    directory: Path,
    *,
    pace: Pace = QUICK,
    written: Directories | None = None,
    settings: str | None = None,
) -> GeneratedScenario:
    """The scenario of a seed on one of the `topologies`; its file is left in `directory`.

    `settings` names a file of settings for the system's nodes.

    `written` are the directories of scenarios that people wrote: where such a scenario on the same topology publishes
    in a namespace, the generated one publishes there too, because only the system knows which namespaces there are.

    Raises AssertionError where no attempt is valid. Whatever `load_scenario` raises that is no InputError is let
    through: it is a bug.
    """
    refusals: list[str] = []
    file = directory / f"{name_scenario(seed)}.yaml"
    for attempt in range(_ATTEMPTS):
        # A text as seed gives the same numbers in every process and in every version of Python.
        maker = _Maker(random.Random(f"{seed}/{attempt}"), topologies, directories, pace, written)
        content = maker.make_scenario(seed, random.Random(f"{seed}/{attempt}/clients"))
        content |= {"settings": {"extends": settings}} if settings else {}
        found = GeneratedScenario(seed=seed, content=content, refusals=tuple(refusals))
        file.write_text(found.text, encoding="utf-8")
        try:
            load_scenario(file, directories)
        except InputError as error:
            refusals.append(str(error))
        else:
            return found
    file.unlink()
    raise AssertionError(f"seed {seed}: {_ATTEMPTS} attempts were refused, the last one with: {refusals[-1]}")


@cache
def _list_namespaces(topology: str, written: Directories) -> list[str]:
    """The namespaces in which scenarios that people wrote publish on a topology."""
    contents = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in written.list_files().values()]
    found = [one.get("workload", {}).get("namespace") for one in contents if one["topology"] == topology]
    return sorted({namespace for namespace in found if namespace is not None})


@cache
def _read_topology(name: str, directories: Directories) -> Topology:
    return load_topology(name, directories)


class _Maker:
    """Makes one scenario."""

    def __init__(
        self,
        rng: random.Random,
        topologies: Sequence[str],
        directories: Directories,
        pace: Pace,
        written: Directories | None,
    ) -> None:
        self._rng, self._pace = rng, pace
        self._topology_name = rng.choice(list(topologies))
        self._topology = _read_topology(self._topology_name, directories)
        self._system: System = find_system(self._topology)
        # By cluster, the nodes that the run has: name, role and region.
        self._nodes = {
            name: {node: one.model_dump(include={"role", "region", "rack"}) for node, one in cluster.nodes.items()}
            for name, cluster in self._topology.clusters.items()
        }
        self._namespaces = _list_namespaces(self._topology_name, written) if written else []
        self._shared = list(self._topology.shared_metadata)
        self._impact_s = self._choose_seconds(pace.impact_s)

    def make_scenario(self, seed: int, of_clients: random.Random) -> dict[str, Any]:
        """The content of the file; a field that is left out has its default.

        What came later than the rest is drawn from numbers of its own. So a seed that was written down before gives the
        same rest. `of_clients` are those of faults of clients and of outputs.
        """
        rng, pace = self._rng, self._pace
        overrides = self._make_overrides()
        faults = self._make_faults()
        content: dict[str, Any] = {
            "title": f"Generated from seed {seed}",
            "description": "Made at random; nobody knows beforehand what it comes to.",
            "topology": self._topology_name,
            "overrides": overrides,
            # The embedded one: where nodes live changes nothing of what is generated.
            "runtime": rng.choice(["process"]),
            "guarantee": str(self._choose_guarantee()),
            "tighten": self._choose_anomalies(),
            "loosen": self._choose_anomalies(),
            "workload": self._make_workload(faults),
            "phases": {
                "steady_s": self._choose_seconds(pace.steady_s),
                "impact_s": self._impact_s,
                "recovery_s": self._choose_seconds(pace.recovery_s),
            },
            "faults": faults,
            "bounds": self._make_bounds(faults),
            "settle_s": self._choose_seconds(pace.settle_s),
        }
        if content["guarantee"] == Guarantee.AT_MOST_ONCE or set(content["loosen"]) & set(MISSING):
            content["bounds"]["missing_messages"] = {"max": rng.choice([0, 100])}
        if any(fault["kind"] == "destroy" for fault in faults) and rng.random() < 0.3:
            content["destroyed"] = [self._choose_cluster()]
            content["bounds"]["rpo_messages"] = {"max": rng.choice([0, 100, 10_000])}
        if rng.random() < 0.2:
            content["owner"] = {rng.choice(["steady", "recovery"]): rng.choice(self._list_regions())}
        if rng.random() < 0.2:
            content["tags"] = rng.sample(["nightly", "random", "tag with spaces"], rng.randint(1, 3))
        if rng.random() < 0.25:
            # Those that a topology has already are replaced.
            overrides["restart"] = {rng.choice(list(self._system.roles)): {"after_s": rng.choice([0.5, 2, 20])}}
        late = random.Random(f"{seed}/late_after_s")
        if late.random() < 0.2:
            content["late_after_s"] = late.choice([0.1, 0.5, 3])
        if rng.random() < 0.2:
            content["regression"] = {"tolerance": rng.choice([0, 0.3]), "window": rng.choice([12, 40])}
            compared = [name for name, metric in METRICS.items() if metric.compared]
            if rng.random() < 0.5:
                content["regression"]["tolerances"] = {rng.choice(compared): 0.5}
        self._rng = of_clients
        self._add_outputs(content)
        if self._rng.random() < 0.45:
            self._add_client_faults(content)
        self._add_growth(content, random.Random(f"{seed}/grows_to"))
        self._add_rest(content, random.Random(f"{seed}/quiet"))
        given = {field: value for field, value in content.items() if value not in ({}, [])}
        # Only plain values, none of them twice, so that the file has neither tags nor anchors.
        plain: dict[str, Any] = json.loads(json.dumps(given))
        return plain

    def _make_overrides(self) -> dict[str, Any]:
        """Nodes with other names, in other regions, more of them or fewer; the metadata stores stay as they are."""
        overrides: dict[str, Any] = {}
        for cluster, nodes in self._nodes.items():
            movable = {
                name: node for name, node in nodes.items() if not coordinates(self._system.roles[str(node["role"])])
            }
            choice = self._rng.random()
            if choice < 0.4 or not movable:
                continue
            regions = list(self._topology.regions)
            if not self._topology.links and choice < 0.7:
                regions = ["here", "there"]
            if len(self._topology.clusters) > 1 or len(movable) < len(nodes):
                # A part of the nodes depends on the others, so only one more is added.
                name, node = self._rng.choice(list(movable.items()))
                added = f"{name}-more"
                overrides[f"clusters.{cluster}.nodes.{added}"] = dict(node)
                nodes[added] = dict(node)
                continue
            roles = list(dict.fromkeys(str(node["role"]) for node in movable.values()))
            names = self._rng.sample(_NODE_NAMES, self._rng.choice([1, 2, 3, 3, 4, 5, 5, 7]))
            self._nodes[cluster] = {
                name: {
                    "role": roles[number % len(roles)],
                    "region": self._rng.choice(regions),
                    "rack": self._rng.choice(["rack-1", "rack-2"]),
                }
                for number, name in enumerate(names)
            }
            overrides[f"clusters.{cluster}.nodes"] = self._nodes[cluster]
        return overrides

    def _make_faults(self) -> list[dict[str, Any]]:
        faults: list[dict[str, Any]] = []
        kinds = [name for name, kind in FAULT_KINDS.items() if self._is_able(kind)]
        for _ in range(self._rng.choice([0, 1, 1, 1, 2, 2, 3, 4])):
            kind = self._rng.choice(kinds)
            faults.append(self._make_fault(f"{kind}_{len(faults) + 1}", kind, faults))
        return faults

    def _is_able(self, kind: FaultKind) -> bool:
        """Whether the system, the topology and a runtime can do a kind of fault."""
        if not kind.is_for_nodes or kind.name == GROW:
            # Those of clients, and those that add partitions, are drawn from numbers of their own.
            return False
        if kind.needs is not None and kind.needs not in self._abilities:
            return False
        if kind.needs_of_runtime is not None and not runtimes_that_can(kind.needs_of_runtime):
            return False
        return bool(self._topology.links) or not isinstance(kind, LinkFaultKind)

    def _make_fault(self, name: str, kind: str, earlier: Sequence[dict[str, Any]]) -> dict[str, Any]:
        rng = self._rng
        # Early for the most part, so that there is time to see what it does.
        at_s = round(min(rng.uniform(0, self._impact_s), rng.uniform(0, self._impact_s)) * 0.95, 1)
        fault: dict[str, Any] = {"name": name, "kind": kind, "targets": self._make_targets(earlier), "at_s": at_s}
        if kind in ("unload", "split"):
            fault["targets"] = {"now": "topic_owner"}
        if isinstance(FAULT_KINDS[kind], LinkFaultKind):
            fault["link"] = self._make_link_change(kind)
        ending = rng.random()
        if ending < 0.1:
            fault["heal_after_s"] = round(rng.uniform(0, self._impact_s - at_s), 1)
        elif ending < 0.5:
            fault["heal_at_s"] = round(rng.uniform(min(at_s + 0.2, self._impact_s), self._impact_s), 1)
        elif ending < 0.7:
            fault["permanent"] = True
        if earlier and rng.random() < 0.2:
            fault["when"] = self._make_condition(rng.choice(earlier))
        return fault

    def _make_targets(self, earlier: Sequence[dict[str, Any]]) -> dict[str, Any]:
        rng = self._rng
        if earlier and rng.random() < 0.3:
            # Several faults on the same nodes.
            return dict(rng.choice(earlier)["targets"])
        if rng.random() < 0.4:
            names = [*self._shared, *(name for nodes in self._nodes.values() for name in nodes)]
            # A minority for the most part, so that most systems get over it.
            most = max(1, (len(names) - 1) // 2) if rng.random() < 0.75 else len(names)
            return {"nodes": rng.sample(names, rng.randint(1, most))}
        ways: list[dict[str, Any]] = [
            {"now": "topic_owner"},
            {"now": "topic_owner"},
            {"region": rng.choice(self._list_regions())},
            {"role": rng.choice(list(self._system.roles))},
            {"cluster": self._choose_cluster()},
            {"cluster": self._choose_cluster(), "now": "topic_owner"},
            {"region": rng.choice(self._list_regions()), "role": rng.choice(list(self._system.roles))},
        ]
        if Ability.COPIES in self._abilities:
            ways += [{"now": "topic_holders"}]
        if Ability.COORDINATORS in self._abilities:
            ways += [{"now": "coordination_leader"}, {"now": "coordination_followers"}]
        targets = rng.choice(ways)
        if targets.get("now") != "topic_owner" and rng.random() < 0.8:
            targets["count"] = rng.choice([1, 1, 1, 2])
        return targets

    def _make_link_change(self, kind: str) -> dict[str, Any]:
        rng, fault_kind = self._rng, FAULT_KINDS[kind]
        values = {
            "delay_ms": rng.choice([1, 20, 200]),
            "jitter_ms": rng.choice([0, 1]),
            "bandwidth_mbit": rng.choice([0.5, 5, 100]),
        }
        assert isinstance(fault_kind, LinkFaultKind)
        change: dict[str, Any] = {
            field: values[field] for field in (fault_kind.changes, *fault_kind.takes) if field is not None
        }
        if rng.random() < 0.4:
            change["direction"] = str(rng.choice(list(Direction)))
        if rng.random() < 0.3:
            change["regions"] = rng.sample(self._list_regions(), 1)
        return change

    def _make_condition(self, earlier: dict[str, Any]) -> dict[str, Any]:
        within_s = round(self._impact_s / 2, 1)
        of_nodes = "client" not in earlier["targets"]
        if Ability.REPAIR in self._abilities and of_nodes and self._rng.random() < 0.5:
            return {"rereplicated": earlier["name"], "within_s": within_s}
        returns = {"heal_at_s", "heal_after_s"} & earlier.keys() and self._rng.random() < 0.5
        condition = "healthy" if returns else "unhealthy"
        return {condition: earlier["name"], "for_s": self._rng.choice([0.3, 1]), "within_s": within_s}

    def _add_growth(self, content: dict[str, Any], rng: random.Random) -> None:
        """Let the topic get more partitions, if the system can do this and replicates the topic nowhere."""
        workload = content["workload"]
        if Ability.GROWTH not in self._abilities or not workload["partitions"] or rng.random() > 0.3:
            return
        topic = self._system.topic(Workload(namespace=workload.get("namespace"), topic=workload["topic"]))
        homes = workload.get("produce_on") or list(self._nodes)[:1]
        if any(list_reached(self._system, self._topology, home, topic)[1:] for home in homes):
            return
        workload["grows_to"] = workload["partitions"] + rng.choice([1, 3])
        at_s = round(rng.uniform(0, self._impact_s * 0.5), 1)
        content["faults"].append({"name": GROW, "kind": GROW, "targets": {"now": "topic_owner"}, "at_s": at_s})

    def _add_rest(self, content: dict[str, Any], rng: random.Random) -> None:
        """Leave producers without messages for a while."""
        if rng.random() > 0.2:
            return
        workload = content["workload"]
        targets: dict[str, Any] = {"client": str(ClientRole.PRODUCER)}
        if rng.random() < 0.5:
            targets["count"] = rng.randint(1, workload["producers"])
        at_s = round(rng.uniform(0, self._impact_s * 0.6), 1)
        rest: dict[str, Any] = {"name": QUIET, "kind": QUIET, "targets": targets, "at_s": at_s}
        if rng.random() < 0.7:
            rest["heal_after_s"] = round(rng.uniform(0.5, self._impact_s - at_s), 1)
        content["faults"].append(rest)

    def _add_outputs(self, content: dict[str, Any]) -> None:
        """Let consumers of some subscriptions write outputs, and add bounds of these outputs."""
        rng = self._rng
        if rng.random() > 0.5:
            return
        ways = [way for way in Commit if way is not Commit.BEFORE or Ability.CONFIRMED_ACKS in self._abilities]
        for subscription in content["workload"]["subscriptions"]:
            if "moves" in subscription or rng.random() > 0.7:
                continue
            plain = not {"consumers", "replicated"} & subscription.keys()
            if plain and rng.random() < self._pace.streaming:
                subscription["streaming"] = str(rng.choice(list(Streaming)))
                del subscription["type"]
            else:
                subscription["commit"] = str(rng.choice(ways))
            if rng.random() < 0.3:
                bound = rng.choice([{"max": 0}, {"max": 100}, {"min": 1}])
                metric = rng.choice(["missing_outputs", "repeated_outputs"])
                content["bounds"][f"{metric}/{subscription['name']}"] = bound

    def _add_client_faults(self, content: dict[str, Any]) -> None:
        """Add faults of clients between those of nodes, and sometimes one of nodes that waits for one of them."""
        rng, workload, faults = self._rng, content["workload"], content["faults"]
        for subscription in workload["subscriptions"]:
            takes_several = subscription.get("type") != SubscriptionType.EXCLUSIVE and "streaming" not in subscription
            if takes_several and rng.random() < 0.3:
                subscription["standby"] = rng.choice([1, 1, 2])
        for number in range(rng.choice([1, 1, 2, 3])):
            at = rng.randint(0, len(faults))
            faults.insert(at, self._make_client_fault(number + 1, workload, faults[:at]))
        if rng.random() < 0.2:
            kinds = [name for name, kind in FAULT_KINDS.items() if self._is_able(kind)]
            kind = rng.choice(kinds)
            earlier = [fault for fault in faults if "client" not in fault["targets"]]
            after = [fault for fault in faults if "client" in fault["targets"] and _shows_health(fault)]
            if after:
                fault = self._make_fault(f"{kind}_after_client", kind, earlier)
                faults.append(fault | {"when": self._make_condition(rng.choice(after))})
        if rng.random() < 0.5:
            able = Ability.DEDUPLICATION in self._abilities and content["guarantee"] == Guarantee.EFFECTIVELY_ONCE
            way = rng.choice(list(OnRestart)) if able else OnRestart.RESEND
            workload.setdefault("client", {})["on_restart"] = str(way)

    def _make_client_fault(
        self, number: int, workload: dict[str, Any], earlier: Sequence[dict[str, Any]]
    ) -> dict[str, Any]:
        rng = self._rng
        subscriptions = workload["subscriptions"]
        on_standby = [one for one in subscriptions if "standby" in one]
        kinds = [name for name, kind in FAULT_KINDS.items() if kind.is_for_clients and name not in ("start", QUIET)]
        # Most clients die or freeze; a repeated task ends all clients of its role.
        kind = "start" if on_standby and rng.random() < 0.4 else rng.choice([*kinds, "kill", "kill", "stop", "pause"])
        role = ClientRole.PRODUCER
        if kind == "start" or (kind != "fence" and subscriptions and rng.random() < 0.6):
            role = ClientRole.CONSUMER
        targets = self._make_client_targets(kind, role, workload)
        at_s = round(min(rng.uniform(0, self._impact_s), rng.uniform(0, self._impact_s)) * 0.9, 1)
        fault: dict[str, Any] = {"name": f"{role}_{kind}_{number}", "kind": kind, "targets": targets, "at_s": at_s}
        ending = rng.random()
        if ending < 0.5:
            fault["heal_after_s"] = round(rng.uniform(0, min(3.0, self._impact_s - at_s)), 1)
        elif ending < 0.7:
            fault["heal_at_s"] = round(rng.uniform(min(at_s + 0.2, self._impact_s), self._impact_s), 1)
        elif ending < 0.8:
            fault["permanent"] = True
        after = [one for one in earlier if "client" not in one["targets"] or _shows_health(one)]
        if after and rng.random() < 0.15:
            fault["when"] = self._make_condition(rng.choice(after))
        return fault

    def _make_client_targets(self, kind: str, role: ClientRole, workload: dict[str, Any]) -> dict[str, Any]:
        rng = self._rng
        targets: dict[str, Any] = {"client": str(role)}
        subscriptions = [one for one in workload["subscriptions"] if kind != "start" or "standby" in one]
        if role is ClientRole.PRODUCER:
            clusters = workload.get("produce_on") or list(self._nodes)[:1]
            names = [f"{cluster}-p{number}" for cluster in clusters for number in range(workload["producers"])]
        else:
            subscription = rng.choice(subscriptions)
            consumers, name = subscription.get("consumers", 1), subscription["name"]
            first = consumers if kind == "start" else 0
            # Those on standby are started, or hit before they are.
            names = [f"{name}-c{number}" for number in range(first, consumers + subscription.get("standby", 0))]
        way = rng.choice(["names", "names", "subscription", "cluster", "all"])
        if kind == "start" or (way == "names" and kind != TASK_RETRY):
            targets["names"] = rng.sample(names, rng.randint(1, min(2, len(names))))
        elif way == "subscription" and role is ClientRole.CONSUMER:
            targets["subscription"] = subscription["name"]
        elif way == "cluster" and role is ClientRole.PRODUCER:
            targets["cluster"] = rng.choice(clusters)
        if kind == TASK_RETRY:
            targets["count"] = 1
        elif "names" not in targets and rng.random() < 0.5:
            targets["count"] = rng.choice([1, 1, 2])
        if kind != "start" and rng.random() < 0.4:
            # A producer has a batch of several messages only if many are due at a time.
            rarely = [ClientMoment.HOLDS_UNACKNOWLEDGED] * 2 if role is ClientRole.PRODUCER else []
            targets["now"] = str(rng.choice([*ClientMoment, *rarely]))
        return targets

    def _make_workload(self, faults: Sequence[dict[str, Any]]) -> dict[str, Any]:
        rng = self._rng
        clusters = list(self._nodes)
        producers = rng.choice([1, 1, 2, 3])
        workload: dict[str, Any] = {
            "topic": rng.choice(["orders", "a", "t-1"]),
            "partitions": rng.choice([0, 0, 1, 2, 3, 5]),
            "rate": rng.randint(*self._pace.rate),
            "size": rng.choice([16, 100, 200, 1000, 10_000, 40_000]),
            "keys": rng.choice([producers * len(clusters), 10 * len(clusters), 100, 1000]),
            "producers": producers,
            "subscriptions": [self._make_subscription(number, faults) for number in range(rng.choice([0, 1, 1, 2, 3]))],
        }
        if self._namespaces:
            workload["namespace"] = rng.choice(self._namespaces)
        if rng.random() < 0.4:
            workload["produce_on"] = rng.sample(clusters, rng.randint(1, len(clusters)))
        if workload["keys"] >= 2 * producers * len(clusters) and rng.random() < 0.2:
            workload["hot_key_share"] = rng.choice([0.01, 0.5, 0.9])
        if self._topology.links and rng.random() < 0.4:
            workload["region"] = rng.choice(self._list_regions())
        if rng.random() < 0.6:
            workload["client"] = self._make_client()
        return workload

    def _make_client(self) -> dict[str, Any]:
        rng = self._rng
        values = {
            "send_timeout_s": rng.choice([0, 0.5, 2, 5]),
            "operation_timeout_s": rng.choice([1, 3, 30]),
            "connection_timeout_s": rng.choice([1, 10]),
            "max_pending": rng.choice([5, 50, 1000, 10_000]),
            "batching_delay_ms": rng.choice([0, 1, 5, 50]),
            "batching_messages": rng.choice([1, 10, 100]),
            "batch_by_key": rng.random() < 0.3,
            "receiver_queue": rng.choice([1, 10, 1000]),
        }
        known = self._system.client_settings.model_fields
        if "answer_timeout_s" in known:
            values["answer_timeout_s"] = rng.choice([1, 2, 5])
        if "redelivery_delay_ms" in known:
            values["redelivery_delay_ms"] = rng.choice([0, 500, 2000])
        values = {field: value for field, value in values.items() if field in known}
        return {field: values[field] for field in rng.sample(list(values), rng.randint(1, len(values)))}

    def _make_subscription(self, number: int, faults: Sequence[dict[str, Any]]) -> dict[str, Any]:
        rng = self._rng
        subscription: dict[str, Any] = {
            "name": rng.choice(["audit", "billing", "s"]) + (f"_{number}" if number else ""),
            "type": str(rng.choice(list(SubscriptionType))),
        }
        if rng.random() < 0.15:
            subscription["consumers"] = rng.randint(2, 3)
        shares = SubscriptionType(subscription["type"]).shares_messages
        if Ability.NEGATIVE_ACKS in self._abilities and shares and rng.random() < 0.2:
            subscription["negative_ack_every"] = rng.choice([2, 10, 100])
        if rng.random() < 0.3:
            subscription["cluster"] = self._choose_cluster()
        if self._topology.links and rng.random() < 0.3:
            subscription["region"] = rng.choice(self._list_regions())
        if Ability.REPLICATED_SUBSCRIPTIONS in self._abilities and rng.random() < 0.2:
            subscription["replicated"] = True
        if Ability.MOVING_SUBSCRIPTIONS in self._abilities and faults and rng.random() < 0.3:
            after = rng.choice([fault["name"] for fault in faults])
            subscription["moves"] = {"to": self._choose_cluster(), "after": after, "after_s": rng.choice([0, 2, 5])}
        return subscription

    def _make_bounds(self, faults: Sequence[dict[str, Any]]) -> dict[str, Any]:
        rng = self._rng
        bounds: dict[str, Any] = {}
        if rng.random() < 0.6:
            return bounds
        able = [name for name, metric in METRICS.items() if metric.needs is None or metric.needs in self._abilities]
        for name in rng.sample(able, rng.randint(1, 3)):
            metric = METRICS[name]
            greatest = {"share": 1, "s": 5, "ms": 500}.get(metric.unit, 100)
            limit = round(rng.uniform(0, 2 * greatest), 2)
            subject = ""
            if metric.is_per_fault and faults and rng.random() < 0.4:
                subject = f"/{rng.choice([fault['name'] for fault in faults])}"
            bounds[f"{name}{subject}"] = rng.choice(
                [{"max": limit}, {"max": limit}, {"min": 0, "max": limit}, {"min": round(limit / 20, 3)}]
            )
        return bounds

    @property
    def _abilities(self) -> frozenset[Ability]:
        return find_abilities(self._system)

    def _choose_guarantee(self) -> Guarantee:
        able = [Guarantee.AT_MOST_ONCE, *[Guarantee.AT_LEAST_ONCE] * 4]
        return self._rng.choice(
            [*able, Guarantee.EFFECTIVELY_ONCE] if Ability.DEDUPLICATION in self._abilities else able
        )

    def _choose_anomalies(self) -> list[str]:
        if self._rng.random() < 0.85:
            return []
        able = [one for one in Anomaly if one.facts.needs is None or one.facts.needs in self._abilities]
        return [str(one) for one in self._rng.sample(able, self._rng.randint(1, 2))]

    def _choose_cluster(self) -> str:
        return self._rng.choice(list(self._nodes))

    def _list_regions(self) -> list[str]:
        shared = [node.region for node in self._topology.shared_metadata.values()]
        own = [str(node["region"]) for nodes in self._nodes.values() for node in nodes.values()]
        return list(dict.fromkeys([*shared, *own]))

    def _choose_seconds(self, between: tuple[float, float]) -> float:
        return round(self._rng.uniform(*between), 1)


def _shows_health(fault: dict[str, Any]) -> bool:
    """Whether a condition can wait for the health of a fault's clients: they are down, or healed under load."""
    return fault["kind"] not in ("fence", TASK_RETRY, "start") or bool({"heal_at_s", "heal_after_s"} & fault.keys())


def list_fields(scenario: Scenario) -> set[str]:
    """The fields of a scenario's models that have not their default, as dotted paths without names and indexes."""
    return set(_list_set_fields(scenario, ""))


def _list_set_fields(value: Any, at: str) -> Any:
    if hasattr(value, "model_fields_set"):
        for field in value.model_fields_set:
            path = f"{at}.{field}" if at else field
            inner = getattr(value, field)
            if inner not in (None, {}, []):
                yield path
            yield from _list_set_fields(inner, path)
    elif isinstance(value, list):
        for item in value:
            yield from _list_set_fields(item, at)
