"""Runs scenarios that are generated from seeds, several at a time, and explains what each came to.

Usage: PYTHONPATH=tests/systems:tests/installations python tests/generated/campaign.py --count 200 --seed 0 --at-once 3
       … --system pulsar --count 30

Prints a table, then how often each reason occurred; the exit status is 1 where a run came to something that nobody can
explain. Its directory is kept then, those of the others go. Of Pulsar nobody knows beforehand what it does when its
parts fail, so there the exit status speaks of Brokerproof only: steps that crash or are too long, what is left behind,
messages that are counted wrongly. What each run came to is told, and is for people to explain.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from brokerproof.directories import Directories
from campaign_options import add_campaign_options, conclude, list_seeds, make_directory
from chain import MARGIN_S, run_chain
from judging_session import JudgingSession
from oracle import Explanation, describe, explain, list_kinds
from own_slots import own_slots
from scenario_generator import PACES, generate_scenario, name_scenario

ROOT = Path(__file__).resolve().parents[2]
_PLACES = [str(ROOT / place) for place in ("plugins", "spark_jobs", "tests/systems", "tests/generated")]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A system to do it on: its topologies, the pace of its scenarios, and the times that its steps may take."""

    directory: Path
    topologies: tuple[str, ...]
    pace: str
    # Scenarios that people wrote, whose namespaces the generated ones use.
    written: Directories | None = None
    settings: str | None = None
    # What a step may take beside its phases, in seconds.
    margin_s: float = MARGIN_S
    # Whether everything that a run may come to is known beforehand.
    explained: bool = True


STAGES = {
    # None whose servers misbehave: what these do to messages is what they are for.
    "testlog": Stage(directory=ROOT / "tests" / "systems" / "topologies", topologies=("three_servers",), pace="quick"),
    "pulsar": Stage(
        directory=ROOT / "topologies",
        topologies=("sync_active_passive_managed", "geo_replication", "sync_ensemble_witness", "geo_replication_wan"),
        pace="brisk",
        written=Directories((ROOT / "dags" / "scenarios",)),
        settings="early_detection",
        margin_s=300.0,
        explained=False,
    ),
}


@dataclass(frozen=True, kw_only=True)
class GeneratedRun:
    """A generated scenario that was run: what it came to, and how many attempts at the scenario were refused."""

    seed: int
    seconds: float
    faults: str
    refusals: int
    explanation: Explanation

    @property
    def line(self) -> str:
        """Its line of the table."""
        explanation = self.explanation
        why = "; ".join([*(f"UNEXPLAINED: {each}" for each in explanation.violations), *explanation.classes])
        return f"{self.seed:>6}  {explanation.verdict:<8}{self.seconds:>5.0f}  {self.faults:<28} {why}".rstrip()


HEADER = f"{'seed':>6}  {'verdict':<8}{'s':>5}  {'faults':<28} why"


@contextlib.contextmanager
def prepare_environment(directory: Path, at_once: int) -> Iterator[None]:
    """The log server in the registry, and slots of the campaign's own, whose addresses nobody else has."""
    with own_slots(directory / "leases", at_once), pytest.MonkeyPatch.context() as patch:
        patch.setenv("BROKERPROOF_SYSTEMS", "testlog=testlog_system.system:TESTLOG")
        # Of the servers, the clients and the monitor, which are processes of their own.
        patch.setenv("PYTHONPATH", os.pathsep.join([*_PLACES, *filter(None, [os.environ.get("PYTHONPATH")])]))
        yield


def run_seed(seed: int, directory: Path, session: JudgingSession, stage: Stage) -> GeneratedRun:
    """Generate the scenario of a seed and run it. Whatever is raised is a violation."""
    started = time.monotonic()
    faults, refusals = "", 0
    try:
        topologies = Directories((stage.directory,))
        generated = generate_scenario(
            seed,
            stage.topologies,
            topologies,
            directory,
            pace=PACES[stage.pace],
            written=stage.written,
            settings=stage.settings,
        )
        refusals = len(generated.refusals)
        end = run_chain(
            directory / f"{generated.name}.yaml",
            topologies,
            directory / "runs" / generated.name,
            session.judge,
            margin_s=stage.margin_s,
        )
        explanation, faults = (explain if stage.explained else describe)(end), list_kinds(end.run)
    except Exception:
        explanation = Explanation(verdict="none", violations=[traceback.format_exc().strip().replace("\n", " | ")])
    if stage.explained and not explanation.violations:
        shutil.rmtree(directory / "runs" / name_scenario(seed))
    seconds = time.monotonic() - started
    return GeneratedRun(seed=seed, seconds=seconds, faults=faults, refusals=refusals, explanation=explanation)


def run_seeds(
    seeds: Sequence[int], directory: Path, *, at_once: int, stage: Stage = STAGES["testlog"]
) -> Iterator[GeneratedRun]:
    """Run the scenarios of seeds, in their order as far as they end in it."""
    directory.mkdir(parents=True, exist_ok=True)
    with (
        prepare_environment(directory, at_once),
        JudgingSession() as session,
        ThreadPoolExecutor(max_workers=at_once) as pool,
    ):
        yield from pool.map(lambda seed: run_seed(seed, directory, session, stage), seeds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and return the exit status."""
    parser = argparse.ArgumentParser(description="Run scenarios that are generated from seeds.")
    add_campaign_options(parser, count=200, at_once=3)
    parser.add_argument("--system", choices=STAGES, default="testlog", help="what the scenarios run on")
    options = parser.parse_args(arguments)
    directory = make_directory(options, "generated")
    stage = STAGES[options.system]
    table, runs = sys.stdout, list[GeneratedRun]()
    print(HEADER, flush=True)
    # What the jobs print is for their logs.
    with contextlib.redirect_stdout(sys.stderr):
        for run in run_seeds(list_seeds(options), directory, at_once=options.at_once, stage=stage):
            runs.append(run)
            print(run.line, file=table, flush=True)
    for line in summarize(runs):
        print(line)
    unexplained = sum(bool(run.explanation.violations) for run in runs)
    return conclude(options, directory, f"{unexplained} runs cannot be explained" if unexplained else "")


def summarize(runs: Sequence[GeneratedRun]) -> Iterator[str]:
    """The verdicts, and how often each reason occurred with the first seed that had it."""
    yield ""
    verdicts = Counter(run.explanation.verdict for run in runs)
    yield ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    yield f"{sum(run.refusals for run in runs)} attempts at a scenario were refused, each with a sentence"
    if runs:
        yield f"the longest run took {max(run.seconds for run in runs):.0f} s"
    for name, count in Counter(name for run in runs for name in run.explanation.classes).most_common():
        first = next(run.seed for run in runs if name in run.explanation.classes)
        yield f"{count:>6}  {name} (seed {first})"


if __name__ == "__main__":
    sys.exit(main())
