"""Measures failovers: when the system noticed a fault, when its nodes were healthy again, and what moved clients got.

The system noticed a fault when it no longer listed failed nodes, and when another node owned the topic.
"""

from __future__ import annotations

from collections.abc import Iterator

from brokerproof.run.directory import Run
from brokerproof.run.observations import SampledMetric, Source, parse_names, split_name
from brokerproof.systems.registry import find_system
from brokerproof.systems.roles import coordinates, is_listed, list_nodes_that, list_roles_that

from brokerproof_judging.database import DuckDB, make_small_table, register_tables, select_rows
from brokerproof_judging.measurements.measured_values import Estimate, MeasuredValue, make_measured_value
from brokerproof_judging.measurements.run_times import EffectiveFault, RunTimes
from brokerproof_judging.measurements.samples import Samples, Series
from brokerproof_judging.measurements.waiting import list_samples, read_absence, read_arrival
from brokerproof_judging.run_database import read_script


def measure_failover(run: Run, connection: DuckDB) -> Iterator[MeasuredValue]:
    """Yield the numbers of messages `repeated_by_move` and `missed_by_move` of each subscription that moves.

    A repeated message was delivered in both clusters. A missed message was acked, and delivered in neither cluster.
    `missed_by_move` is null if a message that was delivered in neither cluster is `unproven` in the new cluster.
    `connection` is a database with the table `messages`.
    """
    for each in run.scenario.workload.subscriptions:
        if each.moves is None:
            continue
        before, after = each.list_clusters(run.topology)
        move = make_small_table("subscription string, before string, after string", [(each.name, before, after)])
        register_tables(connection, {"move": move})
        (row,) = select_rows(connection, read_script("measurements", "move"))
        evidence = f"delivered on {before} and {after}, of {row['had']} that were delivered before it moved"
        yield make_measured_value("repeated_by_move", each.name, float(row["repeated"]), evidence)
        if row["unproven"]:
            yield make_measured_value("missed_by_move", each.name, None, f"{row['unproven']} of them are unproven")
        else:
            evidence = f"delivered on neither of {before} and {after}"
            yield make_measured_value("missed_by_move", each.name, float(row["missed"]), evidence)


def measure_detection(run: Run, samples: Samples, fault: EffectiveFault) -> Estimate:
    """Return the time from the fault's effect until no cluster's list of live nodes had a target of the fault any more.

    The value is None if no target's role is listed, if no node was left to give a list, or if targets went on serving.
    """
    listed = list_roles_that(find_system(run.topology), is_listed)
    lists: dict[tuple[str, str], set[str]] = {}
    for target in fault.targets:
        node = run.topology.nodes.get(target)
        if node is not None and node.role in listed:
            source = Source.CLUSTER.join_name(run.topology.cluster_of(target))
            lists.setdefault((source, SampledMetric.ALIVE.join_subject(node.role)), set()).add(target)
    if not lists:
        return Estimate(value=None, evidence=f"no target is a {' or a '.join(listed)}, and others are listed nowhere")
    for source, metric in lists:
        # The list comes from nodes of the role itself, or else from the nodes that coordinate the cluster. If the fault
        # hit all of these, there is no list until a node is back.
        cluster, role = split_name(source)[1], split_name(metric)[1]
        nodes = run.topology.clusters[cluster].nodes
        running = {name for name, node in nodes.items() if node.role == role and not node.standby}
        if running.union(list_nodes_that(coordinates, run.topology, cluster)) <= set(fault.targets):
            why = f"no {role} of {cluster} and no node that coordinates it was left to say who lives"
            return Estimate(value=None, evidence=why)
    after = {name: list_samples(fault, samples.series.get(name, [])) for name in lists}
    gone = {
        name: next((at for at, value in after[name] if not targets.intersection(parse_names(value))), None)
        for name, targets in lists.items()
    }
    waiting = [after[name] for name, at in gone.items() if at is None]
    if waiting and fault.leaves_nodes:
        return Estimate(value=None, evidence="the fault leaves its nodes in service, so that there is none to miss")
    if waiting:
        return read_absence(fault, waiting, "a target was still listed alive")
    # Each list lost its targets at its own time. The latest time counts.
    last = max(at for at in gone.values() if at is not None)
    return read_arrival(samples, fault, last, "first sample without a target")


def measure_reassignment(run: Run, samples: Samples, fault: EffectiveFault, grown_us: int | None = None) -> Estimate:
    """Return the time from the fault's effect until each partition that had been owned by a target had another owner.

    The value is None if no target owned a partition, or if the owner of a partition before the effect is not known.
    `grown_us` is the time at which the topic got more partitions, if it did.
    """
    effect, workload = fault.span.start_us, run.scenario.workload
    added = set(workload.list_partitions()).difference(workload.list_first_partitions())
    if grown_us is not None and grown_us < effect:
        added = set()
    times: list[int] = []
    waiting: list[Series] = []
    owner_known, unknown = False, set[str]()
    for topic, partition, values in samples.find_by_subject(Source.TOPIC, SampledMetric.OWNER):
        if partition.isdecimal() and int(partition) in added:
            # It is not there yet.
            continue
        if _may_be_owned_by_target(run, topic, fault) and not any(at <= effect and owner for at, owner in values):
            unknown.add(f"{topic} {partition}".strip())
        for cluster in run.topology.clusters:
            # Two clusters may have a topic of the same name. The owner shows to which cluster a sample belongs.
            here = [(at, owner) for at, owner in values if owner in run.topology.clusters[cluster].nodes]
            before, after = [owner for at, owner in here if at <= effect], list_samples(fault, here)
            owner_known = owner_known or bool(before)
            if not before or before[-1] not in fault.targets:
                continue
            at = next((at for at, owner in after if owner not in fault.targets), None)
            if at is None:
                waiting.append(after)
            else:
                times.append(at)
    if waiting:
        return read_absence(fault, waiting, "no other node owned the topic")
    if unknown and owner_known:
        return Estimate(value=None, evidence=f"the owner of {min(unknown)} before the effect is not known")
    if times:
        return read_arrival(samples, fault, max(times), "first sample with another owner")
    why = "owner was not a target" if owner_known else "the owner before the effect is not known"
    return Estimate(value=None, evidence=why)


def measure_node_recovery(times: RunTimes, fault: EffectiveFault) -> Estimate:
    """Return the time from the beginning of the fault's healing until all its targets passed their health checks.

    The value is None if the fault was not healed, if a target was not healthy again, or if the targets went on serving.
    It is None too if another fault kept a target down, because the fault's recovery then does not wait for this target.
    """
    if fault.leaves_nodes:
        return Estimate(value=None, evidence="the fault leaves its nodes in service, so that none has to return")
    if fault.healed_us is None:
        return Estimate(value=None, evidence="the fault was not healed")
    recovered = fault.recovered_us
    if recovered is None:
        return Estimate(value=None, evidence="its targets were not healthy again")
    kept = [node for node in fault.targets if any(span.holds(recovered) for span in times.down.get(node, ()))]
    if kept:
        return Estimate(value=None, evidence=f"another fault kept {kept[0]} down")
    return Estimate(value=(recovered - fault.healed_us) / 1e6, evidence="every target passed its health check")


def _may_be_owned_by_target(run: Run, topic: str, fault: EffectiveFault) -> bool:
    """Return whether a target is in the topic's cluster, or in any cluster if `topic` does not name its cluster."""
    cluster = run.topology.clusters.get(topic.rpartition("@")[2])
    nodes = run.topology.nodes if cluster is None else cluster.nodes
    return bool(nodes.keys() & set(fault.targets))
