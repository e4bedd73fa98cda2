"""The facts about topologies that `brokerproof topologies` and docs/topologies.md show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from brokerproof.checks import load_topology
from brokerproof.directories import Directories
from brokerproof.errors import InputError
from brokerproof.experiment.layered_file import read_layered_file
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.yaml_models import read_yaml

NODE_COLUMNS = ("cluster", "node", "role", "region", "rack", "")


@dataclass(frozen=True, kw_only=True)
class TopologySummary:
    """What a list of topologies shows of one of them, as it is after `extends`."""

    name: str
    title: str
    description: str
    system: str
    # The topologies that it extends, beginning with the one that its file names.
    extends: list[str]
    clusters: list[str]
    regions: list[str]
    # {role: number of nodes}
    nodes: dict[str, int]
    # {policy: names} for each policy that contains several things by name.
    policies: dict[str, list[str]]
    # The scenarios whose files name it.
    scenarios: list[str]

    @property
    def nodes_in_words(self) -> str:
        return ", ".join(f"{count} {role}" for role, count in self.nodes.items())


def summarize_topology(
    name: str, directories: Directories, scenario_files: Iterable[Path]
) -> tuple[TopologySummary, Topology]:
    """Return the summary of a topology, and the topology itself with all defaults.

    Raises InputError if the topology cannot be used. A scenario whose file cannot be read is left out.
    """
    topology = load_topology(name, directories)
    file = directories.find(name)
    extended = read_layered_file(file, directories).layers[1:] if file else ()
    policies: dict[str, dict[str, None]] = {}
    for cluster in topology.clusters.values():
        for policy, content in cluster.policies.items():
            if content and isinstance(content, Mapping) and all(isinstance(one, Mapping) for one in content.values()):
                policies.setdefault(policy, {}).update(dict.fromkeys(content))
    summary = TopologySummary(
        name=name,
        title=topology.title,
        description=" ".join(topology.description.split()),
        system=topology.system,
        extends=[layer.path.stem for layer in extended],
        clusters=list(topology.clusters),
        regions=topology.regions,
        nodes=dict(Counter(node.role for node in topology.nodes.values())),
        policies={policy: list(names) for policy, names in policies.items()},
        scenarios=[file.stem for file in scenario_files if _find_topology(file) == name],
    )
    return summary, topology


def list_nodes(topology: Topology) -> list[Sequence[str]]:
    """Return a row with the values of `NODE_COLUMNS` for each node. The last value says what is particular of it."""
    rows: list[Sequence[str]] = []
    for name, node in topology.nodes.items():
        cluster = "all" if name in topology.shared_metadata else topology.cluster_of(name)
        after_s = topology.restarted_after_s.get(name)
        remarks = ["standby"] if node.standby else []
        remarks += [f"restarts after {after_s:g} s"] if after_s is not None else []
        rows.append((cluster, name, node.role, node.region, node.rack, ", ".join(remarks)))
    return rows


def dump_policies(topology: Topology) -> str:
    """Return the policies of each cluster, the links and the settings as YAML, without values that are not set."""
    clusters = {name: cluster.policies for name, cluster in topology.clusters.items()}
    content = topology.model_dump(mode="json", include={"links", "settings", "heap_mb"})
    whole = _drop_empty({"clusters": clusters, **content})
    # Without a style, YAML writes the innermost lists and mappings on one line each.
    return str(yaml.safe_dump(whole, sort_keys=False, default_flow_style=None, width=100))


def _find_topology(scenario_file: Path) -> Any:
    try:
        return read_yaml(scenario_file).get("topology")
    except InputError:
        # `brokerproof scenarios` names the mistake.
        return None


def _drop_empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _drop_empty(item) for name, item in value.items() if item not in (None, {}, [], ())}
    return [_drop_empty(item) for item in value] if isinstance(value, list | tuple) else value
