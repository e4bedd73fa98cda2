"""Whether a kept cluster changes results: `python tests/benchmarks/kept_clusters.py [--times N]`.

Five scenarios of one cluster run N times each on clusters of their own, and N times one after the other on a kept
cluster, an hour and a half in all for N = 3. The table has the verdicts of each scenario, and the metrics whose medians
differ by more than the scenario's own rule of regression allows. The last line is the ratio of seconds, kept to new.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.scenario import RegressionRule
from brokerproof.results.regressions import UsualValue, compute_allowed_change
from brokerproof.run.directory import Run
from brokerproof.run.judgement import find_judgement
from brokerproof.run.outcome import Outcome
from brokerproof.run.records import ClusterReuse, read_record

# The last one destroys nodes, so no other can follow it.
SCENARIOS = (
    "sync_bookie_paused",
    "sync_owner_paused",
    "sync_rolling_restart",
    "control_metadata_store_away",
    "sync_datacenter_loss",
)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What is compared of a run. `values` is {(metric, subject, unit): value}, without what was not measured."""

    rule: RegressionRule
    verdict: str
    met: bool
    seconds: float
    reused: bool
    values: dict[tuple[str, str, str], float]


def run_scenarios(names: Sequence[str], *options: str) -> list[Result]:
    """Run scenarios one after the other. Exits if a run leaves no outcome."""
    command = [sys.executable, "-m", "brokerproof", "run", *names, "--json", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    try:
        outcomes = json.loads(done.stdout)
    except ValueError:
        sys.exit(f"{' '.join(names)} ended with status {done.returncode} and no outcome")
    outcomes = outcomes if isinstance(outcomes, list) else [outcomes]
    if len(outcomes) != len(names):
        sys.exit(f"{len(names)} scenarios were to run, and {len(outcomes)} left an outcome")
    return [read_result(Run(outcome["run_dir"])) for outcome in outcomes]


def read_result(run: Run) -> Result:
    """Return the result of a run that has ended. Exits if it has no outcome."""
    outcome, reuse = read_record(run, Outcome), read_record(run, ClusterReuse)
    judgement, _ = find_judgement(run)
    if outcome is None or outcome.seconds.total is None:
        sys.exit(f"{run.directory} lacks the record of its end")
    return Result(
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


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare runs on a kept cluster with runs on new ones.")
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    new, kept = defaultdict[str, list[Result]](list), defaultdict[str, list[Result]](list)
    for _ in range(options.times):
        for name in SCENARIOS:
            new[name] += run_scenarios([name])
        for name, result in zip(SCENARIOS, run_scenarios(SCENARIOS, "--keep-cluster"), strict=True):
            kept[name].append(result)
    print(f"\n{date.today()}, {os.cpu_count()} cores, {options.times} runs of each kind")
    print("| scenario | verdicts on new clusters | on the kept one | reused | s, new | s, kept | medians that differ |")
    print("|---|---|---|---|---|---|---|")
    for name in SCENARIOS:
        verdicts = [describe_verdicts(results) for results in (new[name], kept[name])]
        seconds = [statistics.median(each.seconds for each in results) for results in (new[name], kept[name])]
        reused = sum(each.reused for each in kept[name])
        differences = "; ".join(list_differences(new[name], kept[name])) or "none"
        print(f"| {name} | {' | '.join(verdicts)} | {reused} | {seconds[0]:.0f} | {seconds[1]:.0f} | {differences} |")
    sums = [sum(each.seconds for results in runs.values() for each in results) for runs in (new, kept)]
    print(f"seconds, kept / new: {sums[1] / sums[0]:.2f}")


def describe_verdicts(results: Sequence[Result]) -> str:
    """Return each verdict with its number, such as `3 passed`, and mark those that the scenario does not expect."""
    counted = Counter(f"{each.verdict}{'' if each.met else ' (not as expected)'}" for each in results)
    return ", ".join(f"{count} {verdict}" for verdict, count in counted.items())


if __name__ == "__main__":
    main()
