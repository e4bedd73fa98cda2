"""How long one message's life takes to read: `python tests/benchmarks/message_life.py`, some minutes.

Generates and judges a run of a million messages as `verify_scale.py` does: tables of Spark and of judging, in order of
time, whose row groups' statistics exclude most rows. Then the lives of some messages are read, each in a process of its
own, and printed are seconds, CPU seconds, and by how much the process' memory grew above what its imports take.

The same is done after the rows of every table were shuffled into one file with one row group, which is the worst
case: statistics exclude nothing.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PRODUCERS, LOST = 8, 1000
TABLES = ("publishes", "stored", "deliveries", "messages", "anomalies")


def prepare(directory: str) -> None:
    """Leave the seals and the judgement that a run's own jobs would leave."""
    from brokerproof.experiment.guarantees import Anomaly
    from brokerproof.experiment.verdict import Verdict
    from brokerproof.run.directory import Run
    from brokerproof.run.judgement import TOTALS, Counts, Judgement
    from brokerproof.run.records import write_record
    from brokerproof.run.seals import seal_tables

    file = Path(directory) / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"sealed": True}))
    run = Run(directory)
    seal_tables(run, "publishes", "stored", "deliveries", "faults")
    counts = Counts(**dict.fromkeys(TOTALS, 0), legal={}, illegal={Anomaly.LOST: LOST})
    empty: dict[str, object] = {"suites": {}, "recovery": {}, "seconds": {}, "measurements": (), "problems": ()}
    write_record(run, Judgement.model_validate({"verdict": Verdict.FAILED, "why": "lost", "counts": counts, **empty}))


def shuffle(directory: str) -> None:
    """Write every table anew: one file, one row group, rows in no order."""
    import numpy as np
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq
    from brokerproof.run.directory import Run
    from brokerproof.run.tables import SCHEMAS

    run = Run(directory)
    for table in TABLES:
        files = list(Path(run.table(table)).iterdir())
        rows = ds.dataset(run.table(table), schema=SCHEMAS[table], format="parquet").to_table()
        for file in files:
            file.unlink()
        shuffled = rows.take(np.random.default_rng(0).permutation(rows.num_rows))
        pq.write_table(shuffled, f"{run.table(table)}/part-0.parquet", row_group_size=max(1, rows.num_rows))


def explain(directory: str, producer: str, seq: int) -> None:
    """Read one life, and print what it took and what it says."""
    from brokerproof.reports.messages.message_life import read_message_life
    from brokerproof.run.directory import Run

    def peak_mb() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    before, started, used = peak_mb(), time.monotonic(), time.process_time()
    life = read_message_life(Run(directory), producer, seq)
    seconds, cpu_s = time.monotonic() - started, time.process_time() - used
    assert not life.problems, life.problems
    print(f"{seconds:6.2f} s, {cpu_s:5.2f} CPU s, {peak_mb() - before:4.0f} MB more: {life.sentence}", flush=True)


def main() -> None:
    """Generate, judge, and read lives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=float, default=1, help="in millions")
    parser.add_argument("--directory", help="where to put the run; a temporary directory by default")
    parser.add_argument("--step", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        name, directory, *rest = options.step
        if name == "explain":
            return explain(directory, rest[0], int(rest[1]))
        return {"prepare": prepare, "shuffle": shuffle}[name](directory)
    messages = int(options.messages * 1e6)
    with tempfile.TemporaryDirectory(dir=options.directory) as work:
        directory = f"{work}/run"
        scale = str(Path(__file__).with_name("verify_scale.py"))
        for arguments in (["--generate", directory, str(messages)], ["--judge", directory]):
            subprocess.run([sys.executable, scale, *arguments], check=True, stdout=subprocess.DEVNULL)
        _run_step("prepare", directory)
        _read_lives("in order of time", directory, messages)
        _run_step("shuffle", directory)
        _run_step("prepare", directory)
        _read_lives("shuffled, one row group a table", directory, messages)
    return None


def _read_lives(title: str, directory: str, messages: int) -> None:
    print(f"{messages:,} messages, {title}:", flush=True)
    # The message 0 is one of those that are lost.
    for number in (0, messages // 2 + 3, messages - 1):
        _run_step("explain", directory, f"producer-{number % PRODUCERS}", str(number // PRODUCERS))


def _run_step(*step: str) -> None:
    subprocess.run([sys.executable, __file__, "--step", *step], check=True)


if __name__ == "__main__":
    main()
