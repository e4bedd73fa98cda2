"""How long `verify` takes and how much memory at two sizes: `python tests/benchmarks/verify_scale.py --messages 1 5`.

Generates runs of that many million messages (publishes, stored, and deliveries to one subscription) with Spark, then
judges each in a process of its own and prints seconds, CPU seconds and the peak memory of the whole process tree, with
their ratios.
The history is clean but for a few planted anomalies, whose number has to be found, and a fault: no message of the tenth
of the time that follows it is acked before that tenth ends, so a tenth of all messages is late.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

PLUGINS, JOBS = (Path(__file__).resolve().parents[2] / name for name in ("plugins", "spark_jobs"))
PRODUCERS, KEYS, RATE_PER_S, PLANTED = 8, 1000, 20_000, 1000
FAULT = "eu_killed"
TOPIC = "persistent://mytenant/eu/orders"
START_S = 1_700_000_000


def generate(directory: str, messages: int) -> None:
    """Write a run of so many messages: every `PLANTED`-th part of them is lost, once each."""
    from brokerproof.checks import load_topology
    from brokerproof.experiment.scenario import Scenario
    from brokerproof.experiment.yaml_models import parse
    from brokerproof.run.directory import Run
    from brokerproof.run.records import (
        FaultsUndone,
        LoadEnd,
        LogRead,
        LogsRead,
        PhaseTimes,
        SubscriptionDrain,
        SubscriptionDrains,
        write_record,
    )
    from brokerproof.run.tables import FaultState
    from brokerproof_judging import table_io
    from pyspark.sql import functions as F

    spark = _session()
    topology = load_topology("sync_active_passive", PLUGINS.parent / "topologies")
    content = {
        **{"name": "scale", "title": "t", "description": "d", "topology": "sync_active_passive"},
        "workload": {"namespace": "mytenant/eu", "rate": RATE_PER_S, "keys": KEYS, "producers": PRODUCERS},
        "faults": [{"name": FAULT, "kind": "kill", "targets": {"region": "eu"}, "permanent": True}],
    }
    scenario = parse(Scenario, content, file="scale")
    run = Run.create(directory, run_id="scale", scenario=scenario, topology=topology)
    end = int((START_S + messages / RATE_PER_S) * 1e6)
    third = (end - START_S * 1_000_000) // 3
    steady_at, impact_at, recovery_at = (START_S * 1_000_000 + part * third for part in range(3))
    back_at = impact_at + (end - START_S * 1_000_000) // 10
    at = ((F.lit(START_S) + F.col("id") / RATE_PER_S) * 1_000_000).cast("long")
    served = F.when(at.between(impact_at, back_at), F.lit(back_at)).otherwise(at)
    base = spark.range(messages, numPartitions=max(2, messages // 2_000_000)).select(
        *[
            F.lit(value).alias(name)
            for name, value in (("run_id", "scale"), ("cluster", "mycluster"), ("topic", TOPIC))
        ],
        F.lit(-1).alias("partition"),
        F.concat(F.lit("producer-"), F.col("id") % PRODUCERS).alias("producer"),
        F.lit(0).alias("epoch"),
        F.expr(f"id DIV {PRODUCERS}").alias("seq"),
        F.concat(F.lit("key-"), F.col("id") % KEYS).alias("key"),
        F.xxhash64("id").alias("payload_hash"),
        F.timestamp_micros(at).alias("scheduled_at"),
        F.timestamp_micros(at + 20).alias("sent_at"),
        F.timestamp_micros(served + 4000).alias("settled_at"),
        F.lit("acked").alias("outcome"),
        F.expr("id DIV 5000000").alias("segment"),
        F.expr("(id % 5000000) DIV 10").alias("offset"),
        F.expr("id % 10").alias("batch_index"),
        F.lit("audit").alias("subscription"),
        F.lit("consumer-0").alias("consumer"),
        F.lit(0).alias("incarnation"),
        F.col("id").alias("arrival"),
        F.timestamp_micros(served + 5000).alias("received_at"),
        F.timestamp_micros(served + 6000).alias("acknowledged_at"),
        F.lit(0).alias("redelivery_count"),
        F.timestamp_micros(served + 1000).alias("published_at"),
        F.lit(None).cast("string").alias("replicated_from"),
        F.lit(None).cast("string").alias("error"),
        (F.col("id") % (messages // PLANTED) == 0).alias("lost"),
    )
    for table in ("publishes", "stored", "deliveries"):
        there = base if table == "publishes" else base.filter("NOT lost")
        columns = [F.col(field.name).cast(field.dataType) for field in table_io.make_table_schema(table).fields]
        there.select(columns).write.parquet(table_io.to_uri(run.table(table)))
    place = {"cluster": "mycluster", "topic": TOPIC, "partition": -1}
    read = LogRead(task=0, end=None, read_to_end=True, why="read", messages=messages - PLANTED, **place)
    drain = SubscriptionDrain(subscription="audit", drained=True, why="0", **place)
    states = (FaultState.INJECTING, FaultState.EFFECTIVE)
    rows = [{"run_id": "scale", "fault": FAULT, "kind": "kill", "state": state, "at": impact_at} for state in states]
    run.append("faults", [{**row, "targets": ["broker-eu-1"], "evidence": "{}"} for row in rows])
    for record in (
        LoadEnd(finished=True, why="", scheduled=messages, producers=(), at=end),
        FaultsUndone(undone=True, problems=(), at=end),
        LogsRead(started_at=end, finished_at=end, logs=(read,)),
        SubscriptionDrains(subscriptions=(drain,), at=end),
        PhaseTimes(steady_at=steady_at, impact_at=impact_at, recovery_at=recovery_at, ends_at=end),
    ):
        write_record(run, record)


def judge(directory: str) -> None:
    """Judge a run, without the suites: their cost is measured where they are."""
    from brokerproof.experiment.guarantees import Suite
    from brokerproof.experiment.verdict import Verdict
    from brokerproof.run.directory import Run
    from brokerproof.run.judgement import SuiteJudgement
    from brokerproof_judging.run_judging import judge_run

    run = Run(directory)
    passed = SuiteJudgement(verdict=Verdict.PASSED, why="", evaluated=0, written=0, expectations=())
    judgement = judge_run(_session(), run, lambda *_: dict.fromkeys(Suite, passed), "")
    illegal = {str(anomaly): count for anomaly, count in judgement.counts.illegal.items() if count}
    assert illegal == {"lost": PLANTED}, illegal
    assert judgement.recovery[FAULT]["rto_s"], judgement.recovery
    print(json.dumps(judgement.seconds))


def measure(directory: str) -> dict[str, float]:
    """Judge in a process of its own; seconds and the peak of its tree's memory in MB."""
    command = [sys.executable, __file__, "--judge", directory]
    started, peaks, used = time.monotonic(), [0], [0.0]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    finished = threading.Event()

    def watch() -> None:
        root = psutil.Process(process.pid)
        while not finished.wait(0.5):
            try:
                tree = [root, *root.children(recursive=True)]
                peaks[0] = max(peaks[0], sum(each.memory_info().rss for each in tree))
                # What a busy machine cannot stretch as it does the wall time.
                used[0] = max(used[0], sum(sum(each.cpu_times()[:2]) for each in tree))
            except psutil.NoSuchProcess:
                continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    output, _ = process.communicate()
    finished.set()
    watcher.join()
    if process.returncode:
        raise SystemExit(f"judging {directory} failed")
    steps = json.loads(output.strip().splitlines()[-1])
    return {
        "seconds": round(time.monotonic() - started, 1),
        "cpu_s": round(used[0], 1),
        "peak_mb": peaks[0] // 2**20,
        **steps,
    }


def main() -> None:
    """Generate, judge, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", nargs=2, type=float, default=[1, 5], help="two sizes, in millions")
    parser.add_argument("--directory", help="where to put the runs; a temporary directory by default")
    parser.add_argument("--judge", help=argparse.SUPPRESS)
    parser.add_argument("--generate", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.judge:
        return judge(options.judge)
    if options.generate:
        return generate(options.generate[0], int(options.generate[1]))
    with tempfile.TemporaryDirectory(dir=options.directory) as work:
        results = []
        for millions in options.messages:
            directory = f"{work}/{millions:g}"
            subprocess.run([sys.executable, __file__, "--generate", directory, str(int(millions * 1e6))], check=True)
            results.append(measure(directory))
            print(f"{millions:g} million messages: {results[-1]}", flush=True)
    small, large = results
    times, work_done, memory = (large[name] / small[name] for name in ("seconds", "cpu_s", "peak_mb"))
    size = options.messages[1] / options.messages[0]
    print(
        f"{size:g} times the messages: {times:.2f} times the seconds, "
        f"{work_done:.2f} times the CPU seconds, {memory:.2f} times the memory"
    )
    return None


def _session():  # type: ignore[no-untyped-def]
    from brokerproof.machine.java import find_spark_java_home

    os.environ["JAVA_HOME"] = str(find_spark_java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        "--master local[2] --driver-memory 2g --conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false "
        "--conf spark.sql.shuffle.partitions=8 "
        "--conf spark.driver.host=127.0.0.1 --conf spark.driver.bindAddress=127.0.0.1 pyspark-shell"
    )
    from verify import session

    spark = session()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    main()
