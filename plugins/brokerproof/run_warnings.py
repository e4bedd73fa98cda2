"""Warnings about a scenario that can run but may not do what its author wants. They are given before the run starts.

`commands`, `orchestration` and `results` may import this module. It opens no database: the warning that needs the
history of runs is in `results/held_rates.py`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from brokerproof.errors import InputError
from brokerproof.experiment.fault import Fault
from brokerproof.experiment.guarantees import MISSING, Anomaly, SubscriptionType
from brokerproof.experiment.metrics import METRICS, Metric
from brokerproof.experiment.scenario import Bound, Phase, Scenario
from brokerproof.experiment.states import STATES
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.yaml_models import suggest_name
from brokerproof.faults.registry import FAULT_KINDS, list_destroying_faults, list_harmful_faults
from brokerproof.systems.destinations import list_clusters_reached, list_replication_ways
from brokerproof.systems.registry import find_system, parse_client_settings
from brokerproof.systems.roles import list_nodes_that, list_roles_that, serves, stores


@dataclass(frozen=True, kw_only=True)
class RunWarning:
    """One warning. `field` is a dotted path in the scenario. `what` and `remedy` are parts of one sentence."""

    field: str
    what: str
    remedy: str

    def __str__(self) -> str:
        # `InputError` shortens long values that the user wrote.
        return str(InputError(self.what, field=self.field, remedy=self.remedy))


def list_warnings(scenario: Scenario, topology: Topology) -> list[RunWarning]:
    """Return the warnings about a scenario that `load_scenario` accepted."""
    flaws = (_list_flaws(key, bound, scenario, topology) for key, bound in scenario.bounds.items())
    return [
        *_list_batching_warnings(scenario, topology),
        *_list_condition_warnings(scenario),
        # One warning for each bound: the first flaw.
        *(flaw for each in flaws if (flaw := next(each, None)) is not None),
        *_list_owner_warnings(scenario, topology),
    ]


def _list_batching_warnings(scenario: Scenario, topology: Topology) -> Iterator[RunWarning]:
    """Yield a warning for each Key_Shared subscription with several consumers, if the producers' batches mix keys.

    With such batches, the messages of a key arrive out of order. A scenario that allows this by `loosen` gets no
    warning.
    """
    workload = scenario.workload
    remedy = parse_client_settings(find_system(topology), workload).mixed_keys_remedy
    if remedy is None or workload.keys <= workload.producer_count:
        return
    if Anomaly.DELIVERED_OUT_OF_ORDER in scenario.loosen:
        return
    for index, subscription in enumerate(workload.subscriptions):
        if subscription.type is SubscriptionType.KEY_SHARED and subscription.consumers > 1:
            yield RunWarning(
                field=f"workload.subscriptions.{index}.type",
                what=f"a batch mixes keys and goes whole to one of the {subscription.consumers} consumers that share "
                f"`{subscription.name}` by key, so that messages of a key arrive out of order",
                remedy=remedy,
            )


def _list_condition_warnings(scenario: Scenario) -> Iterator[RunWarning]:
    """Yield a warning for each fault that waits for another fault to make nodes unhealthy, if the other never does."""
    kinds = {fault.name: FAULT_KINDS[fault.kind] for fault in scenario.faults}
    for index, fault in enumerate(scenario.faults):
        for field, condition in fault.conditions.items():
            waited_for = condition.unhealthy
            if waited_for and (kinds[waited_for].leaves_nodes or kinds[waited_for].helps):
                yield RunWarning(
                    field=f"faults.{index}.{field}.unhealthy",
                    what=f"`{waited_for}` ({kinds[waited_for].name}) leaves its nodes in service, so that they pass "
                    "their health checks, the timeline waits in vain, and the verdict is `unknown`",
                    remedy="name a fault that takes its nodes away, or leave the condition out",
                )


def _list_owner_warnings(scenario: Scenario, topology: Topology) -> Iterator[RunWarning]:
    """Yield a warning for each phase in which the topic's owner must be in a region without nodes that can own topics.

    Each cluster to which the topic's messages are published or replicated needs such a node in the region.
    """
    roles = " or ".join(list_roles_that(find_system(topology), serves))
    for phase, region in scenario.owner.by_phase.items():
        elsewhere = [
            cluster
            for cluster in list_clusters_reached(topology, scenario.workload)
            if region not in {topology.nodes[name].region for name in list_nodes_that(serves, topology, cluster)}
        ]
        if elsewhere:
            yield RunWarning(
                field=f"owner.{phase}",
                what=f"no {roles} of `{elsewhere[0]}` is in {region}, so that no run meets it",
                remedy="leave it out, or name a region in which every cluster of the topic has one",
            )


def _list_flaws(key: str, bound: Bound, scenario: Scenario, topology: Topology) -> Iterator[RunWarning]:
    """Yield reasons why a bound has no measurement, or why no run can meet or break the bound; the worst comes first.

    `key` is `METRIC` or `METRIC/SUBJECT`.
    """
    name, _, subject = key.partition("/")
    metric, field = METRICS[name], f"bounds.{key}"
    faults = [fault for fault in scenario.faults if scenario.bound(name, fault.name) is bound]
    known = list_measured_subjects(metric, scenario, topology)
    if known is not None and not known:
        yield RunWarning(
            field=field,
            what=f"there is one value per {metric.subject}, and none is in this scenario, so that the verdict is at "
            "best `unknown`",
            remedy="leave it out",
        )
    elif known is not None and subject and subject not in known:
        yield RunWarning(
            field=field,
            what=f"no {metric.subject} is called `{subject}`, so that nothing is measured of it and the verdict is at "
            "best `unknown`",
            remedy=suggest_name(subject, known),
        )
    for fault in faults:
        if name == "detect_s" and FAULT_KINDS[fault.kind].leaves_nodes:
            yield RunWarning(
                field=field,
                what=f"`{fault.name}` ({fault.kind}) leaves its nodes in service, so that nothing is detected and the "
                "verdict is at best `unknown`",
                remedy="bound it for the other faults only, as `detect_s/NAME`",
            )
    greatest, reason = _find_greatest(metric, scenario, faults)
    if bound.max is not None and bound.max < 0:
        yield RunWarning(
            field=f"{field}.max", what="no value is below 0, so that no run meets it", remedy="set it to 0 or more"
        )
    if bound.max == 0 and metric.above_zero:
        yield RunWarning(
            field=f"{field}.max", what="every value is above 0, so that no run meets it", remedy="set it to more than 0"
        )
    # If the end of the load cuts a time off, the real time is greater than the measured time.
    if bound.min is not None and bound.min > greatest and not metric.ends_with_load:
        yield RunWarning(
            field=f"{field}.min", what=f"{reason}, so that no run meets it", remedy=f"set it to {greatest:g} or less"
        )
    # A required metric must have an exact value. With only a minimum, a value that is known as "at least" is enough.
    lifts_requirement = metric.required and bound.max is None
    if not lifts_requirement and (bound.min or 0) <= 0 and (bound.max is None or bound.max >= greatest):
        yield RunWarning(
            field=field if bound.max is None else f"{field}.max",
            what=f"{reason if bound.max is not None else 'every value is 0 or more'}, so that the bound cannot fail",
            remedy="set a stricter one, or leave it out",
        )


def _find_greatest(metric: Metric, scenario: Scenario, faults: Sequence[Fault]) -> tuple[float, str]:
    """Return the greatest value that the metric can have in a run, or infinity, and a clause with the reason.

    `faults` are the faults to which the scenario's bound on the metric applies.
    """
    phases, workload = scenario.phases, scenario.workload
    if metric.unit == "share":
        return 1, "every value is from 0 to 1"
    if metric.unit == "messages" and workload.target_rate is not None:
        total = int(workload.target_rate * phases.total_s)
        return total, f"the three phases publish {total:,} messages"
    harmful = [fault for fault in faults if FAULT_KINDS[fault.kind].harms]
    if not metric.ends_with_load or not harmful:
        return math.inf, "every value is 0 or more"
    first = min(harmful, key=lambda fault: fault.at_s)
    load_end_s = phases.impact_s + phases.recovery_s - first.at_s
    return load_end_s, (
        f"the load ends {load_end_s:g} s after `{first.name}`, and no value above {load_end_s:g} can be proven"
    )


def list_measured_subjects(metric: Metric, scenario: Scenario, topology: Topology) -> Collection[str] | None:
    """Return the names that may follow `METRIC/` in a bound: a run measures one value of the metric for each name.

    For some metrics they are names of faults, for others phases, subscriptions or the like (`metric.subject`). None if
    the scenario does not determine them.
    """
    homes = scenario.workload.list_homes(topology)
    times = [*Phase, *(fault.name for fault in scenario.faults if FAULT_KINDS[fault.kind].slows)]
    spans = [*Phase, *(fault.name for fault in scenario.faults)]
    storing, serving = (
        [name for cluster in topology.clusters for name in list_nodes_that(trait, topology, cluster)]
        for trait in (stores, serves)
    )
    links = [f"{here}>{there}" for link in topology.links for here, there in (link.between, link.between[::-1])]
    subscriptions = scenario.workload.subscriptions
    sharing = [each.name for each in subscriptions if each.type.shares_messages]
    ways = [f"{home}>{other}" for home, other in list_replication_ways(topology, scenario.workload)]
    subjects: dict[str, Collection[str]] = {
        "fault": list_harmful_faults(scenario),
        "destroying fault": list_destroying_faults(scenario),
        "fault with a hot key": list_harmful_faults(scenario) if scenario.workload.hot_key_share else (),
        "phase": tuple(Phase),
        "phase or fault": spans,
        "storing node and phase or fault": [f"{node}/{span}" for node, span in product(storing, spans)],
        "serving node and phase or fault": [f"{node}/{span}" for node, span in product(serving, spans)],
        "phase or fault that slows": [
            *times,
            *(f"{time}/{home}" for time, home in product(times, homes if len(homes) > 1 else ())),
        ],
        "way and phase or fault that slows": [f"{link}/{time}" for link, time in product(links, times)],
        "way and phase": [f"{way}/{phase}" for way, phase in product(ways, Phase)],
        "moment": [*Phase, "read_back", *(f"before {fault.name}" for fault in scenario.faults), "end"],
        "subscription": [each.name for each in subscriptions if each.moves],
        "sharing subscription": sharing,
        "subscription that keeps order": [
            each.name for each in subscriptions if each.type is not SubscriptionType.SHARED
        ],
        "sharing subscription and phase or fault": [
            f"{name}/{time}" for name, time in product(sharing, [*Phase, *list_harmful_faults(scenario)])
        ],
        "subscription of a topic that stores nothing": (
            () if scenario.workload.is_stored else [each.name for each in subscriptions]
        ),
        "subscription with outputs": [each.name for each in subscriptions if each.outputs_guarantee],
        "anomaly": MISSING,
        "anomaly of a repeated message": (Anomaly.STORED_TWICE,),
        "state": tuple(STATES),
        "run": ("run",),
        "run with more partitions": () if scenario.workload.grows_to is None else ("run",),
        "end of run": ("end_of_run",),
    }
    return subjects.get(metric.subject)
