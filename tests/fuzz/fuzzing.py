"""Gives mutated files to the readers of Brokerproof, and reports each reader that neither reads nor refuses one.

Usage: PYTHONPATH=tests/fuzz:tests/installations python tests/fuzz/fuzzing.py --count 10000 --seed 0 [--family NAME]…

A reader runs in a child process, because a decoder may end its process. A finding is an input for which the process
ended, gave no answer, took more than `LONGEST_S` of processor time or `MOST_MB` of memory, or raised another error than
one of Brokerproof. The inputs of findings are kept in a directory. The exit status is 1 if there are findings.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from mutations import mutants
from readers import FAMILIES, list_every_file, make_every_reader
from reading_child import Child, File


@dataclass(frozen=True, kw_only=True)
class Finding:
    """An input that a reader neither read nor refused as it must, with the reason."""

    reason: str
    file: File


@dataclass(kw_only=True)
class Fuzzed:
    """The result for one family: the findings, and the largest figures of all inputs."""

    family: str
    inputs: int = 0
    longest_s: float = 0.0
    most_mb: float = 0.0
    findings: list[Finding] = field(default_factory=list)


def start_reading(files: Mapping[str, Sequence[File]]) -> Child:
    """Return a child that reads files of all families. `files` has the ones before mutation."""
    return Child(make_every_reader, [each[0] for each in files.values()])


def fuzz(child: Child, family: str, files: Sequence[File], count: int, first_seed: int) -> Fuzzed:
    """Mutate the files of a family `count` times and let the child read them. The same seed makes the same inputs."""
    result = Fuzzed(family=family)

    @seed(first_seed)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(file=mutants(family, files))
    def try_one(file: File) -> None:
        try:
            problem, seconds, megabytes = child.try_file(file)
        except RuntimeError as error:
            # Hypothesis would print the whole input with an error.
            problem, seconds, megabytes = str(error), 0.0, 0.0
        result.inputs += 1
        result.longest_s = max(result.longest_s, seconds)
        result.most_mb = max(result.most_mb, megabytes)
        if problem:
            result.findings.append(Finding(reason=problem, file=file))

    try_one()
    return result


def describe(result: Fuzzed) -> str:
    """Return the figures of a family, and how often each reason of a finding occurred."""
    figures = f"{result.inputs:,} inputs, at most {result.longest_s:.2f} s and {result.most_mb:.0f} MB"
    reasons = Counter(finding.reason for finding in result.findings)
    lines = [f"{result.family}: {figures}, {len(result.findings)} findings"]
    return "\n".join([*lines, *(f"  {times:5,} × {reason}" for reason, times in reasons.most_common())])


def keep_inputs(result: Fuzzed) -> Path:
    directory = Path(tempfile.mkdtemp(prefix=f"fuzz-{result.family}-"))
    for number, finding in enumerate(result.findings):
        name, content = finding.file
        (directory / f"{number:05}-{Path(name).name}").write_bytes(content)
    return directory


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=10_000, help="inputs for each family (10000)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed makes the same inputs")
    parser.add_argument("--family", action="append", choices=FAMILIES, help="only this one; may be repeated")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="to-mutate-") as directory:
        files = list_every_file(Path(directory))
    child, found = start_reading(files), 0
    for family in options.family or FAMILIES:
        result = fuzz(child, family, files[family], options.count, options.seed)
        print(describe(result), flush=True)
        if result.findings:
            print(f"  the inputs are in {keep_inputs(result)}", flush=True)
        found += len(result.findings)
    child.close()
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
