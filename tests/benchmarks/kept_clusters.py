"""Whether a kept cluster changes results: `python tests/benchmarks/kept_clusters.py [--times N]`.

Runs five scenarios until each was run N times on a new cluster and N times on a kept one, which takes two hours for
N = 3. Chains of three scenarios on one cluster give both kinds, because the first one of a chain starts the cluster.
The table has the verdicts of each scenario, and the metrics whose medians differ by more than the scenario's own rule
of regression allows. The last line is the ratio of seconds, kept to new.

The runs are listed in `bench-kept.txt` beside the directory of runs, so a benchmark that was ended continues. Delete
the file to begin anew.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.scenario import RegressionRule
from brokerproof.results.regressions import UsualValue, compute_allowed_change
from brokerproof.run.directory import Run
from brokerproof.run.judgement import find_judgement
from brokerproof.run.outcome import Outcome
from brokerproof.run.records import ClusterReuse, read_record
from brokerproof.settings import from_environment

# Scenarios after which the cluster is as a new one.
HARMLESS = ("sync_owner_paused", "sync_rolling_restart")
# Bookies end after they were frozen, or had no metadata store, for long. The last one destroys nodes.
HARMFUL = ("sync_bookie_paused", "control_metadata_store_away", "sync_datacenter_loss")
SCENARIOS = (*HARMLESS, *HARMFUL)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What is compared of a run. `values` is {(metric, subject, unit): value}, without what was not measured."""

    scenario: str
    rule: RegressionRule
    verdict: str
    met: bool
    seconds: float
    reused: bool
    values: dict[tuple[str, str, str], float]


def run_scenarios(names: Sequence[str], *options: str) -> list[str]:
    """Run scenarios one after the other, and return the directories of the runs. Exits if a run leaves no outcome."""
    command = [sys.executable, "-m", "brokerproof", "run", *names, "--json", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    try:
        outcomes = json.loads(done.stdout)
    except ValueError:
        sys.exit(f"{' '.join(names)} ended with status {done.returncode} and no outcome")
    outcomes = outcomes if isinstance(outcomes, list) else [outcomes]
    if len(outcomes) != len(names):
        sys.exit(f"{len(names)} scenarios were to run, and {len(outcomes)} left an outcome")
    return [outcome["run_dir"] for outcome in outcomes]


def read_result(run: Run) -> Result:
    """Return the result of a run that has ended. Exits if it has no outcome."""
    outcome, reuse = read_record(run, Outcome), read_record(run, ClusterReuse)
    judgement, _ = find_judgement(run)
    if outcome is None or outcome.seconds.total is None:
        sys.exit(f"{run.directory} lacks the record of its end")
    return Result(
        scenario=run.scenario.name,
        rule=run.scenario.regression,
        verdict=str(outcome.verdict),
        met=outcome.met,
        seconds=outcome.seconds.total,
        reused=reuse is not None and reuse.reused,
        values={
            (each.metric, each.subject, each.unit): each.value
            for each in (judgement.measurements if judgement else ())
            if each.value is not None and METRICS[each.metric].compared
        },
    )


def list_differences(new: Sequence[Result], kept: Sequence[Result]) -> Iterator[str]:
    """Yield each metric whose medians differ by more than the rule of regression allows, in any direction."""
    for name in dict.fromkeys(name for result in (*new, *kept) for name in result.values):
        metric, subject, unit = name
        values = [[result.values[name] for result in results if name in result.values] for results in (new, kept)]
        if not all(values):
            yield f"{metric} {subject}: measured {len(values[0])} and {len(values[1])} times"
            continue
        usual, found = UsualValue.compute(values[0]), statistics.median(values[1])
        if abs(found - usual.median) > compute_allowed_change(unit, usual, new[0].rule.find_tolerance(metric)):
            yield f"{metric} {subject}: {usual.median:g} and {found:g} {unit}"


def choose_next(counts: Mapping[tuple[str, bool], int], times: int) -> list[str]:
    """Return the scenarios of the next chain, or a single one for a new cluster; empty if all were run often enough.

    `counts` has the runs of each scenario on new clusters (False) and on kept ones (True).
    """
    for name in HARMFUL:
        if counts[name, True] < times:
            return [*sorted(HARMLESS, key=lambda each: -counts[each, True]), name]
    few = min(SCENARIOS, key=lambda each: (counts[each, True] >= times, counts[each, False]))
    if counts[few, True] < times:
        return [*(name for name in HARMLESS if name != few), few]
    return [few] if counts[few, False] < times else []


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare runs on a kept cluster with runs on new ones.")
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    listed = from_environment().var / "bench-kept.txt"
    results = [read_result(Run(line)) for line in (listed.read_text().split() if listed.exists() else ())]
    # Each chain has a run on a kept cluster unless a cluster was not as a new one.
    for _ in range(4 * len(SCENARIOS) * options.times):
        counts = Counter((each.scenario, each.reused) for each in results)
        names = choose_next(counts, options.times)
        if not names:
            break
        for directory in run_scenarios(names, *(["--keep-cluster"] if len(names) > 1 else [])):
            results.append(read_result(Run(directory)))
            with listed.open("a", encoding="utf-8") as file:
                file.write(f"{directory}\n")
    else:
        sys.exit("the kept clusters were almost never as new ones; look at the reasons in the runs' reports")
    print_table(results)


def print_table(results: Sequence[Result]) -> None:
    print(f"\n{date.today()}, {os.cpu_count()} cores, {len(results)} runs")
    print("| scenario | verdicts on new clusters | on kept ones | s, new | s, kept | medians that differ |")
    print("|---|---|---|---|---|---|")
    totals: list[float] = [0, 0]
    for name in SCENARIOS:
        new, kept = (
            [each for each in results if (each.scenario, each.reused) == (name, kind)] for kind in (False, True)
        )
        seconds = [statistics.median(each.seconds for each in runs) for runs in (new, kept)]
        totals = [totals[0] + seconds[0], totals[1] + seconds[1]]
        differences = "; ".join(list_differences(new, kept)) or "none"
        print(
            f"| {name} | {describe_verdicts(new)} | {describe_verdicts(kept)} | {seconds[0]:.0f} | {seconds[1]:.0f} "
            f"| {differences} |"
        )
    print(f"medians of seconds, kept / new: {totals[1] / totals[0]:.2f}")


def describe_verdicts(results: Sequence[Result]) -> str:
    """Return each verdict with its number, such as `3 passed`, and mark those that the scenario does not expect."""
    counted = Counter(f"{each.verdict}{'' if each.met else ' (not as expected)'}" for each in results)
    return ", ".join(f"{count} {verdict}" for verdict, count in counted.items())


if __name__ == "__main__":
    main()
