"""Kills random processes of the platform at random moments of real runs, and looks at what is left of each.

Usage: make chaos, or, with PYTHONPATH=tests/systems:tests/installations,
       python tests/chaos/chaos_campaign.py --system testlog --count 50 --seed 0

Every run is typed as `brokerproof run` on a real Airflow with a real Spark. From one to three parts of the platform are
killed with -9 meanwhile: Airflow's parts, tasks, Spark's JVMs, drivers and workers, clients, the monitor, the link
between regions, service managers, the command line itself, or all of Airflow. The same seed kills the same parts at the
same moments of the same scenario. After half of the runs Brokerproof is brought down before anything is looked at, and
after the others the next run begins as if nothing had happened, and everything is brought down in the end.

Then, for every run: no process is left, no lock is held, no file is half written, each row that a client had recorded
is in its table, the history has the run once, and no verdict is wrong: a correct system never failed, and one that is
known to lose, to repeat or to reorder never passed. The exit status is 1 where anything else was found.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from brokerproof.machine import slots
from campaign_options import add_campaign_options, conclude, list_seeds, make_directory
from findings import (
    Truth,
    find_damage_of_database,
    find_damaged_files,
    find_lost_records,
    find_lost_run,
    find_remaining_processes,
    find_temporary_files,
    find_unfinished_files,
    find_wrong_verdict,
)
from installation import PROJECT, Installation, lay_out_log_server
from kept_evidence import EvidenceKeeper, count_kept
from own_slots import own_slots
from victims import OWN, PARTS, Killer, adopt_orphans, choose_kills

SCENARIOS = Path(__file__).resolve().parent / "scenarios"
# What each scenario's system does to messages, by the name of its file.
TRUTHS = {
    "leader_away": Truth(anomalies=frozenset()),
    "losing": Truth(anomalies=frozenset({"lost"})),
    "reordering": Truth(anomalies=frozenset({"stored_out_of_order"})),
    "repeating": Truth(anomalies=frozenset({"stored_twice"})),
    "region_destroyed": Truth(anomalies=frozenset()),
    "copies_in_one_region": Truth(anomalies=frozenset({"lost"})),
    "link_cut": Truth(anomalies=frozenset()),
}


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A system to do it on: its scenarios, each as often as it is to be chosen, and how long things may take."""

    name: str
    scenarios: tuple[str, ...]
    # Kills happen within so many seconds after the run was typed.
    kills_within_s: float
    # The command line has so long, and judging again.
    run_s: float
    parts: tuple[str, ...]

    def lay_out(self, home: Path) -> Installation:
        """The installation of this system, with no scenarios but these."""
        own = ("BROKERPROOF_LEASES", "BROKERPROOF_MAX_CLUSTERS")
        environment = {"TMPDIR": str(home / "tmp"), **{name: os.environ[name] for name in own}}
        (home / "tmp").mkdir(parents=True)
        if self.name == "testlog":
            made = lay_out_log_server(home, **environment)
        else:
            made = Installation.lay_out(home, topologies=[PROJECT / "topologies"], scenarios=[], **environment)
        for file in made.scenarios.iterdir():
            file.unlink()
        for name in set(self.scenarios):
            shutil.copy(SCENARIOS / self.name / f"{name}.yaml", made.scenarios)
        return made


_LINKS = ("link",)
STAGES = {
    "testlog": Stage(
        name="testlog",
        scenarios=("leader_away", "leader_away", "leader_away", "losing", "reordering", "repeating"),
        kills_within_s=45,
        run_s=420,
        parts=tuple(part for part in PARTS if part not in _LINKS),
    ),
    "pulsar": Stage(
        name="pulsar",
        scenarios=("region_destroyed", "region_destroyed", "copies_in_one_region", "link_cut"),
        kills_within_s=150,
        run_s=1200,
        parts=tuple(PARTS),
    ),
}


@dataclass(kw_only=True)
class ChaosRun:
    """A run that was killed at: what was killed, what it came to, and what should not have been found."""

    seed: int
    scenario: str
    run_id: str = ""
    killed: list[str] = field(default_factory=list)
    seconds: float = 0.0
    status: int | None = None
    verdict: str = ""
    why: str = ""
    violations: list[str] = field(default_factory=list)

    @property
    def line(self) -> str:
        """Its line of the table."""
        ended = "killed" if self.status is not None and self.status < 0 else str(self.status)
        told = "; ".join(f"FOUND: {each}" for each in self.violations)
        return (
            f"{self.seed:>5}  {self.scenario:<21}{self.verdict or 'no run':<9}{ended:>7}{self.seconds:>6.0f}  "
            f"{', '.join(self.killed) or 'nothing'}  {told}"
        ).rstrip()


HEADER = f"{'seed':>5}  {'scenario':<21}{'verdict':<9}{'status':>7}{'s':>6}  killed"


class ChaosWorker:
    """Does runs one after the other in one installation."""

    def __init__(self, stage: Stage, home: Path, slot: int) -> None:
        self._stage, self._home, self._slot = stage, home, slot
        self.installation = stage.lay_out(home)
        self._keeper = EvidenceKeeper(self.installation.settings.runs, home / "kept")
        self._runs: list[ChaosRun] = []

    def do_runs(self, seeds: Sequence[int]) -> list[ChaosRun]:
        """Do the runs of seeds, and look at what is left of them."""
        waiting: list[ChaosRun] = []
        try:
            for seed in seeds:
                run = self._do_run(seed)
                waiting.append(run)
                if random.Random(f"{seed}/down").random() < 0.5 or seed == seeds[-1]:
                    self._look_at(waiting)
                    self._runs += waiting
                    for each in waiting:
                        print(each.line, file=sys.stderr, flush=True)
                    waiting = []
        finally:
            self._keeper.close()
            self._bring_down()
        return self._runs

    def _do_run(self, seed: int) -> ChaosRun:
        rng = random.Random(f"{seed}/chaos")
        run = ChaosRun(seed=seed, scenario=rng.choice(self._stage.scenarios))
        kills = choose_kills(rng, parts=self._stage.parts, seconds=self._stage.kills_within_s)
        installation = self.installation
        # The start of Airflow is not what is killed at.
        installation.airflow.start()
        before = self._list_runs()
        started = time.monotonic()
        with (self._home / "tmp-output").open("w+") as stdout, (self._home / "tmp-errors").open("w+") as stderr:
            typed = subprocess.Popen(
                [sys.executable, "-m", "brokerproof", "run", run.scenario, "--json"],
                env=installation.environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )
            OWN.add(typed.pid)
            killer = Killer(kills, rng)
            try:
                run.status = typed.wait(self._stage.run_s)
                if run.status < 0:
                    # The run itself goes on without the command line.
                    self._wait_for_end(self._list_runs() - before, started)
            except subprocess.TimeoutExpired:
                run.violations.append(f"the command line hangs for {self._stage.run_s:.0f} s")
                typed.kill()
                run.status = typed.wait()
            finally:
                killer.stop()
            OWN.discard(typed.pid)
            run.killed, run.seconds = killer.done, time.monotonic() - started
            stderr.seek(0)
            errors = stderr.read()
        if "Traceback" in errors:
            run.violations.append(f"the command line printed a traceback: {errors.strip().splitlines()[-1]}")
        new = self._list_runs() - before
        run.run_id = next(iter(new)).name if new else ""
        return run

    def _list_runs(self) -> set[Path]:
        return {file.parent for file in self.installation.settings.runs.glob("*/run.json")}

    def _wait_for_end(self, runs: set[Path], started: float) -> None:
        """Wait until Airflow has recorded the outcome of runs, as long as it lives and the run may take."""
        installation = self.installation
        while time.monotonic() - started < self._stage.run_s:
            if all((run / "state" / "outcome.json").exists() for run in runs):
                return
            if not installation.airflow.read_status().running:
                return
            time.sleep(0.5)

    def _bring_down(self) -> None:
        """Everything of this installation, and nothing that others run on this machine."""
        done = self.installation.brokerproof("down", "--here")
        if done.returncode:
            raise RuntimeError(f"`brokerproof down` ended with {done.returncode}: {done.stderr}")

    def _look_at(self, runs: Sequence[ChaosRun]) -> None:
        """Bring everything down, and add what should not be found to the runs."""
        self._bring_down()
        last = runs[-1]
        settings = self.installation.settings
        last.violations += find_remaining_processes()
        last.violations += find_unfinished_files(settings.runs)
        last.violations += find_temporary_files(self._home / "tmp")
        if (history := self._home / "history.db").exists():
            last.violations += find_damage_of_database(history)
        last.violations += [f"a slot is still that of {run}" for run in slots.list_assigned_runs()]
        if slots.are_all_held():
            last.violations.append(f"slot {self._slot} is still held")
        recorded = json.loads(self.installation.brokerproof("history", "--json", "--limit", "1000").stdout)
        for run in runs:
            if run.run_id:
                self._look_at_run(run, recorded)

    def _look_at_run(self, run: ChaosRun, recorded: Sequence[Any]) -> None:
        directory = self.installation.settings.runs / run.run_id
        outcome = directory / "state" / "outcome.json"
        run.violations += find_damaged_files(directory)
        if not outcome.exists():
            run.violations.append("it has no outcome")
            return
        result = json.loads(outcome.read_text())
        run.verdict, run.why = result["verdict"], result["why"]
        run.violations += find_lost_run(directory, recorded, result)
        run.violations += find_wrong_verdict(result, directory, TRUTHS[run.scenario])
        if not (directory / "state" / "judgement.json").exists():
            # Nobody was left to judge it, and anybody can do it now.
            again = self.installation.brokerproof("verify", str(directory), "--json")
            if again.returncode not in (0, 1, 2) or not again.stdout:
                run.violations.append(f"it cannot be judged again: {again.stderr.strip()[-300:]}")
                return
            result = json.loads(again.stdout)
            run.violations += find_wrong_verdict(result, directory, TRUTHS[run.scenario])
        run.violations += find_lost_records(directory, self._home / "kept" / run.run_id)


def _work(stage: str, directory: Path, number: int, seeds: Sequence[int]) -> tuple[list[ChaosRun], Counter[str]]:
    """The work of one process: its seeds, in an installation of its own, on slots of its own."""
    adopt_orphans()
    home = directory / f"installation-{number}"
    with own_slots(home / "leases", 1) as slot, pytest.MonkeyPatch.context() as patch:
        worker = ChaosWorker(STAGES[stage], home, slot)
        for name, value in worker.installation.environment.items():
            # Airflow is started with the environment of whoever starts it.
            patch.setenv(name, value)
        runs = worker.do_runs(seeds)
    rows = Counter[str]()
    for run in runs:
        if run.run_id:
            rows.update(count_kept(home / "kept" / run.run_id))
    return runs, rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and return the exit status."""
    parser = argparse.ArgumentParser(description="Kill random processes of the platform while it runs scenarios.")
    parser.add_argument("--system", choices=STAGES, default="testlog", help="what runs")
    add_campaign_options(parser, count=50, at_once=1)
    options = parser.parse_args(arguments)
    directory, seeds = make_directory(options, "chaos"), list_seeds(options)
    print(HEADER, file=sys.stderr, flush=True)
    with ProcessPoolExecutor(max_workers=options.at_once) as pool:
        parts = [
            pool.submit(_work, options.system, directory, number, seeds[number :: options.at_once])
            for number in range(options.at_once)
        ]
        done = [part.result() for part in parts]
    runs = sorted((run for each, _ in done for run in each), key=lambda run: run.seed)
    rows = sum((each for _, each in done), Counter[str]())
    print(HEADER)
    for run in runs:
        print(run.line)
    for line in summarize(runs, rows):
        print(line)
    bad = sum(bool(run.violations) for run in runs)
    return conclude(options, directory, f"{bad} runs left what should not be" if bad else "")


def summarize(runs: Sequence[ChaosRun], rows: Counter[str]) -> Iterator[str]:
    """How many of what, over all runs."""
    yield ""
    kills = Counter(each.rpartition(" at ")[0] for run in runs for each in run.killed)
    yield f"{len(runs)} runs, {sum(kills.values())} kills: " + ", ".join(
        f"{count} {part}" for part, count in kills.most_common()
    )
    yield ", ".join(
        f"{count} {verdict or 'no run'}" for verdict, count in Counter(run.verdict for run in runs).most_common()
    )
    yield f"{rows['publishes']} publishes and {rows['deliveries']} deliveries were recorded by clients"
    yield f"{sum(bool(run.violations) for run in runs)} runs with something that should not be"
    for sentence, count in Counter(run.why for run in runs if run.verdict == "unknown").most_common():
        yield f"{count:>4}  {sentence[:220]}"


if __name__ == "__main__":
    sys.exit(main())
