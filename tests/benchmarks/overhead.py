"""What runs cost beyond their phases: `python tests/benchmarks/overhead.py [SCENARIO …] [--times N] [--busy]`.

Each scenario runs N times, about three minutes each. The table has the median of each step's seconds. The wait for
repair and drains is listed apart, because it belongs to the cluster. With `--busy`, `stress-ng --cpu 2` runs beside the
runs. The last line is the ratio of the seconds beyond the phases, without that wait, to the phases.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from brokerproof.run.directory import Run
from brokerproof.run.fault_course import read_fault_courses
from brokerproof.run.outcome import Outcome
from brokerproof.run.records import FaultsUndone, LoadEnd, PhaseTimes, StepSeconds, SubscriptionDrains, read_record

SCENARIOS = ("sync_nominal", "sync_datacenter_loss")
STEPS = ("reserve", "provision", "configure", "read_back", "verify", "record")


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The seconds of one run: all of it, its phases, the wait for repair and drains, and each part of the rest."""

    total: float
    phases: float
    waiting: float
    parts: dict[str, float]

    @property
    def beyond(self) -> float:
        return self.total - self.phases - self.waiting


def measure(scenario: str) -> Costs:
    """Run a scenario once and return its costs. Exits if the run leaves no outcome."""
    done = subprocess.run(
        [sys.executable, "-m", "brokerproof", "run", scenario, "--json"], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{scenario} ended with status {done.returncode}, so its seconds mean nothing")
    return read_costs(Run(json.loads(done.stdout)["run_dir"]))


def read_costs(run: Run) -> Costs:
    """Return the costs of a run that has ended. Exits if one of its records is missing."""
    outcome, phases = read_record(run, Outcome), read_record(run, PhaseTimes)
    load, drains = read_record(run, LoadEnd), read_record(run, SubscriptionDrains)
    spans = {step: read_record(run, StepSeconds, step) for step in (*STEPS, "load", "consume", "break_it")}
    if outcome is None or outcome.seconds.total is None or phases is None or load is None or drains is None:
        sys.exit(f"{run.directory} lacks a record of its end")
    seconds = {step: (span.finished_at - span.started_at) / 1e6 for step, span in spans.items() if span is not None}
    configured = spans["configure"]
    undone = read_record(run, FaultsUndone)
    # Repairs belong to the timeline of a scenario with faults, and drains begin when both have ended.
    repaired_at = undone.at if undone is not None and read_fault_courses(run) else load.at
    waiting = (max(drains.at, repaired_at) - load.at) / 1e6
    parts = {step: seconds[step] for step in STEPS if step in seconds}
    if configured is not None:
        parts["until the rate is held"] = (phases.steady_at - configured.finished_at) / 1e6
    parts["end of the load"] = (load.at - phases.ends_at) / 1e6
    total = outcome.seconds.total
    known = run.scenario.phases.total_s + waiting + sum(parts.values())
    parts["between the steps"] = total - known
    return Costs(total=total, phases=run.scenario.phases.total_s, waiting=waiting, parts=parts)


@contextlib.contextmanager
def keep_busy(busy: bool) -> Iterator[None]:
    """Keep two cores busy in the block, or exit if `stress-ng` is not installed."""
    if not busy:
        yield
        return
    program = shutil.which("stress-ng")
    if program is None:
        sys.exit("stress-ng is not installed, so nothing can keep the cores busy; install it, or measure without BUSY")
    with subprocess.Popen([program, "--cpu", "2", "--quiet"]) as stress:
        try:
            yield
        finally:
            stress.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what runs cost beyond their phases.")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", default=SCENARIOS)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--busy", action="store_true")
    options = parser.parse_args()
    with keep_busy(options.busy):
        costs = {name: [measure(name) for _ in range(options.times)] for name in options.scenarios}
    names = list(costs)
    print(f"\n{date.today()}, {os.cpu_count()} cores{', busy' if options.busy else ''}, median of {options.times}")
    print(f"| seconds | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    parts = dict.fromkeys(part for runs in costs.values() for run in runs for part in run.parts)
    rows = {part: [[run.parts.get(part, 0.0) for run in costs[name]] for name in names] for part in parts}
    rows["**beyond the phases**"] = [[run.beyond for run in costs[name]] for name in names]
    rows["waiting for repair and drains"] = [[run.waiting for run in costs[name]] for name in names]
    rows["phases"] = [[run.phases for run in costs[name]] for name in names]
    for row, columns in rows.items():
        print(f"| {row} | {' | '.join(f'{statistics.median(column):.1f}' for column in columns)} |")
    beyond, phases = (
        sum(statistics.median(column) for column in rows[row]) for row in ("**beyond the phases**", "phases")
    )
    print(f"beyond the phases / phases: {beyond / phases:.2f}")


if __name__ == "__main__":
    main()
