"""What judging costs: `make bench-verify MESSAGES=1000000 SUSPICIOUS=0.001`, compared with plain SQL on the same files.

scale_history.py writes a run of MESSAGES messages, of which a share SUSPICIOUS has planted anomalies. DuckDB answers
verify_questions.sql on the whole tables, and a Spark session judges the run; both must find exactly what was planted.
The table shows seconds, processor seconds of all processes, and peak memory. Judging is the step that makes `messages`
and `anomalies`, in a running Spark session; `whole judgement` adds checks of seals, measurements and counts.
The last line is the ratio of the processor seconds of judging to those of DuckDB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).resolve().parent
# What the run is made of: the options of `Plan`.
PLAN = ("messages", "suspicious", "keys", "partitions", "clusters")
TABLES = ("publishes", "stored", "deliveries")
# Anomalies that verify_questions.sql counts apart in logs and at subscriptions.
BOTH_PLACES = ("phantom", "corrupted")


class TreeWatch:
    """Measures this process and all processes below it: processor seconds, and the peak of their memory."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._cpu_s: dict[int, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            self.read()

    def read(self) -> float:
        """Return the processor seconds so far. A process that has ended keeps the last that was seen of it."""
        root, memory = psutil.Process(), 0
        for process in [root, *root.children(recursive=True)]:
            try:
                times = process.cpu_times()
                self._cpu_s[process.pid] = times.user + times.system
                memory += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        self.peak_bytes = max(self.peak_bytes, memory)
        return sum(self._cpu_s.values())

    @contextmanager
    def measure(self, steps: dict[str, dict[str, float]], name: str) -> Iterator[None]:
        self.peak_bytes = 0
        started, used = time.monotonic(), self.read()
        yield
        cpu_s = self.read() - used
        seconds = time.monotonic() - started
        steps[name] = {"seconds": seconds, "cpu_s": cpu_s, "peak_mb": self.peak_bytes / 2**20}


def ask_duckdb(directory: str, clusters: int) -> dict[str, Any]:
    """Answer verify_questions.sql on the whole tables; of several clusters, on the rows of the first one."""
    import duckdb
    from scale_history import PLACES

    started = time.monotonic()
    # What does not fit into memory goes beside the run, which `main` removes.
    with duckdb.connect(config={"temp_directory": f"{directory}-spilled"}) as connection:
        for table in TABLES:
            chosen = f"WHERE cluster = '{PLACES[clusters][2][0]}'" if clusters > 1 else ""
            rows = f"read_parquet('{directory}/tables/{table}/*.parquet')"
            connection.execute(f"CREATE VIEW {table} AS FROM {rows} {chosen}")
        found = dict(connection.execute((HERE / "verify_questions.sql").read_text()).fetchall())
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds = time.monotonic() - started
    step = {"seconds": seconds, "cpu_s": usage.ru_utime + usage.ru_stime, "peak_mb": usage.ru_maxrss / 1024}
    return {"found": found, "steps": {"DuckDB": step}}


def judge(directory: str, options: argparse.Namespace) -> dict[str, Any]:
    """Judge the run in a Spark session whose workers run, and count its anomalies."""
    from brokerproof.experiment.guarantees import Suite
    from brokerproof.experiment.verdict import Verdict
    from brokerproof.run.directory import Run
    from brokerproof.run.judgement import SuiteJudgement
    from brokerproof_judging import table_io
    from brokerproof_judging.evidence import Evidence
    from brokerproof_judging.messages.message_judging import MessageJudging, start_judging_workers
    from brokerproof_judging.run_judging import judge_run

    run, spark, watch = Run(directory), start_session(options.master, options.messages), TreeWatch()
    steps: dict[str, dict[str, float]] = {}
    start_judging_workers(spark)
    replacement = table_io.Replacement(run)
    with watch.measure(steps, "judging"):
        with watch.measure(steps, "facts"):
            messages = MessageJudging(spark, run, Evidence.from_run(run), replacement)
            messages.work_out_facts()
        messages.write_tables()
    replacement.take_place()
    found = count_anomalies(directory)
    if options.whole:
        passed = SuiteJudgement(verdict=Verdict.PASSED, why="", evaluated=0, written=0, expectations=())
        with watch.measure(steps, "whole judgement"):
            judgement = judge_run(spark, run, lambda *_: dict.fromkeys(Suite, passed), "")
        assert not judgement.problems, judgement.problems
        assert judgement.recovery["eu_killed"]["rto_s"], judgement.recovery
        assert count_anomalies(directory) == found
    return {"found": found, "steps": steps}


def count_anomalies(directory: str) -> dict[str, int]:
    """Return the rows of the table `anomalies`, by the names of verify_questions.sql."""
    import duckdb
    import fsspec
    from fsspec.implementations.local import LocalFileSystem

    filesystem, root = fsspec.url_to_fs(f"{directory}/tables/anomalies")
    names = [filesystem.unstrip_protocol(name) for name in filesystem.glob(f"{root}/*.parquet")]
    query = f"""
        SELECT
            anomaly || IF(anomaly IN {BOTH_PLACES}, IF(subscription IS NULL, '_stored', '_delivered'), ''), count(*)
        FROM read_parquet($names)
        GROUP BY ALL
    """
    with duckdb.connect() as connection:
        if not isinstance(filesystem, LocalFileSystem):
            connection.register_filesystem(filesystem)
        return dict(connection.execute(query, {"names": names}).fetchall())


def run_step(*arguments: str) -> Any:
    """Run this file in a process of its own, and return what it printed last."""
    process = subprocess.run([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=False)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed")
    return json.loads(process.stdout.strip().splitlines()[-1])


def compare(who: str, found: dict[str, int], planted: dict[str, int]) -> None:
    wrong = [
        f"{name}: {found.get(name, 0)} instead of {planted.get(name, 0)}"
        for name in sorted({*found, *planted})
        if found.get(name, 0) != planted.get(name, 0)
    ]
    if wrong:
        raise SystemExit(f"{who} did not find what was planted: {', '.join(wrong)}")


def measure(directory: str, options: argparse.Namespace) -> dict[str, Any]:
    """Write a run, judge it and ask DuckDB. Raises SystemExit unless both find what was planted."""
    described = {name: getattr(options, name) for name in PLAN}
    plan = [f"--{name}={value}" for name, value in described.items()]
    written, asked = run_step("--write", directory, *plan), run_step("--ask", directory, *plan)
    compare("DuckDB", asked["found"], written["planted"])
    judged = run_step("--judge", directory, *plan, *(["--whole"] if options.whole else []))
    compare("Judging", judged["found"], written["planted"])
    steps = {**written["steps"], **asked["steps"], **judged["steps"]}
    ratio = steps["judging"]["cpu_s"] / steps["DuckDB"]["cpu_s"]
    return {
        **described,
        **{"planted": written["planted"], "steps": steps},
        "ratio": ratio,
    }


def write(directory: str, options: argparse.Namespace) -> dict[str, Any]:
    """Write the run, and return what was planted."""
    from scale_history import Plan, count_planted, write_run

    plan, steps, watch = Plan(**{name: getattr(options, name) for name in PLAN}), {}, TreeWatch()
    with watch.measure(steps, "writing the run"):
        write_run(directory, plan)
    return {"planted": count_planted(plan), "steps": steps}


def print_table(result: dict[str, Any]) -> None:
    """Print the steps, and the ratio as the last line."""
    planted = sum(result["planted"].values())
    print(f"{result['messages']:,} messages, {planted:,} planted anomalies, all of them found")
    print(f"{'step':<18}{'seconds':>10}{'CPU s':>10}{'µs a message':>14}{'peak MB':>10}")
    for name, step in result["steps"].items():
        each_us = step["cpu_s"] / result["messages"] * 1e6
        print(f"{name:<18}{step['seconds']:>10.1f}{step['cpu_s']:>10.1f}{each_us:>14.2f}{step['peak_mb']:>10.0f}")
    print(f"judging / DuckDB, processor seconds: {result['ratio']:.2f}")


def main() -> None:
    """Measure, or do one step of it in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--suspicious", type=float, default=0.001, choices=[0, 0.001, 0.3])
    parser.add_argument("--keys", type=int, default=1000, help="another number needs --suspicious 0")
    parser.add_argument("--partitions", type=int, default=0, help="0 for none; another number needs --suspicious 0")
    parser.add_argument("--clusters", type=int, default=1, choices=[1, 2], help="2 needs --suspicious 0")
    parser.add_argument("--directory", help="where the run is written for the time of the benchmark")
    parser.add_argument("--master", default="local[2]", help="where Spark runs its tasks (default: %(default)s)")
    parser.add_argument("--whole", action="store_true", help="also measure the whole judgement")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    for step in ("write", "ask", "judge"):
        parser.add_argument(f"--{step}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.suspicious and (options.keys, options.partitions, options.clusters) != (1000, 0, 1):
        parser.error("--keys, --partitions and --clusters need --suspicious 0, because anomalies are planted by key")
    if options.write:
        print(json.dumps(write(options.write, options)))
    elif options.ask:
        print(json.dumps(ask_duckdb(options.ask, options.clusters)))
    elif options.judge:
        print(json.dumps(judge(options.judge, options)))
    else:
        with tempfile.TemporaryDirectory(dir=options.directory) as work:
            result = measure(f"{work}/run", options)
        print(json.dumps(result)) if options.json else print_table(result)


def start_session(master: str, messages: int) -> Any:
    """Start a Spark session with the settings of the product's job `verify`."""
    from brokerproof.machine.java import find_spark_java_home
    from brokerproof.settings import from_environment
    from brokerproof.spark.job_configuration import build_spark_conf

    conf = build_spark_conf(
        from_environment(), Path(tempfile.gettempdir()), local=master.startswith("local["), messages=messages
    )
    conf |= {f"spark.driver.{name}": "127.0.0.1" for name in ("host", "bindAddress")}
    options = [f"--conf {name}={shlex.quote(value)}" for name, value in conf.items()]
    os.environ["JAVA_HOME"] = str(find_spark_java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join(["--master", master, *options, "--driver-memory 2g pyspark-shell"])
    from verify import session

    spark = session()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    main()
