"""The time limit of each step (a task of a run's DAG), and a sentence that says what the step does in this run."""

from __future__ import annotations

from datetime import timedelta

from brokerproof.experiment.numbers import join_names
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.workload import MAX_RATE
from brokerproof.run.directory import Run
from brokerproof.run.load_rate import LONGEST_SEARCH_S

# Time for the start of a Spark driver or a client, or for a download, on a busy laptop. It is generous, because a limit
# only has to end a step that hangs.
_START_MARGIN_S = 300
# A run waits for its slot while other runs use the machine. A campaign can use it for a whole night.
_SLOT_WAIT_S = 12 * 3600
_PROVISION_S = 900
_JUDGE_S = 3600


def compute_time_limit(step: str, scenario: Scenario) -> timedelta:
    """Return the time limit of the step's task.

    The DAG run itself must have no limit, because Airflow skips the teardown of a DAG run that exceeds its limit.
    """
    search_s = LONGEST_SEARCH_S if scenario.workload.rate == MAX_RATE else 0
    under_load = search_s + scenario.longest_load_s + scenario.settle_s + _START_MARGIN_S
    # `load` and `consume` begin together with `provision`, and their clients wait until `configure` has ended.
    until_configured = _PROVISION_S + _START_MARGIN_S
    seconds = {
        "reserve": _SLOT_WAIT_S,
        "provision": _PROVISION_S,
        "load": until_configured + under_load,
        # `consume` waits for the timeline's repairs and then for drains. Each wait may take `settle_s`.
        "consume": until_configured + under_load + scenario.settle_s,
        "break_it": under_load,
        # `read_back` reads all stored messages, at least as fast as the load sent them.
        "read_back": under_load,
        "verify": _JUDGE_S,
    }
    return timedelta(seconds=seconds.get(step, _START_MARGIN_S))


def describe_step(step: str, run: Run) -> str | None:
    """Return a sentence that says what the step will do in this run; None if there is no sentence for the step.

    The sentence contains values of the scenario and topology in the run's run.json. Raises RunError if this file is
    missing or damaged, and InputError if its scenario cannot be used.
    """
    scenario, topology = run.scenario, run.topology
    workload, clusters = scenario.workload, join_names(topology.clusters)
    match step:
        case "provision" if run.facts.cluster is not None:
            what = f"uses the nodes that {run.facts.cluster} started, if they are as new ones, or starts them anew"
        case "provision":
            nodes = topology.nodes.values()
            regions = join_names(dict.fromkeys(node.region for node in nodes))
            what = f"starts the {len(nodes)} nodes of topology {scenario.topology} in {regions}, of {topology.system}"
        case "configure":
            what = f"sets the policies of {clusters} as in topology {scenario.topology}"
        case "load":
            what = (
                f"publishes {workload.describe_rate()} of {workload.size:,} bytes from {workload.producers} "
                f"producers to {join_names(workload.list_homes(topology))}, and holds the rate for "
                f"{scenario.phases.total_s:g} s"
            )
        case "consume" if workload.subscriptions:
            names = join_names(subscription.name for subscription in workload.subscriptions)
            what = (
                f"consumes with {names} until every message of the load is drained, at most {scenario.settle_s:g} s "
                "after the load has ended"
            )
        case "consume":
            what = "has no subscription to consume with"
        case "break_it" if scenario.faults:
            start = scenario.phases.steady_s
            faults = join_names(f"{fault.name} ({fault.kind}) at {start + fault.at_s:g} s" for fault in scenario.faults)
            what = f"injects {faults} after the rate is held, and heals what is not permanent"
        case "break_it":
            what = "injects no fault: the scenario is the reference"
        case "read_back":
            what = f"reads every stored message of {clusters}, with its positions"
        case "verify":
            what = f"compares the tables with their seals, and judges every message by `{scenario.guarantee}`"
        case "release":
            what = "ends the nodes, the monitor and every other process of the run, and gives its slot back"
        case _:
            return None
    return f"{run.run_id}: {what}."
