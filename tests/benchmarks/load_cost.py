"""What loading and reading cost: `make bench-load`, about seven minutes; with `--json`, the figures for a program.

One real cluster of four nodes takes turns: in each round two clients of Pulsar's own tool `pulsar-perf`, two plain
clients of Pulsar's Python client which record nothing, and two clients of the product as real processes with their
records on disk. First they publish as fast as the cluster takes it, then they consume, and then they read back.

Messages are counted by the broker, between two moments at which every client works. The processor time of these
seconds is that of the client's processes alone. The last line is the ratio of the product's rate to that of the plain
clients, of producing, as the median of the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pulsar
from brokerproof import clock, lifecycle
from brokerproof.checks import load_scenario
from brokerproof.experiment.workload import Workload
from brokerproof.run.directory import Run
from brokerproof.run.records import ClustersConfigured, write_record
from brokerproof.systems.pulsar import topic
from brokerproof.systems.pulsar.addressing import BROKER_HTTP_PORT, BROKER_PORT
from brokerproof.systems.pulsar.provisioning import find_distribution, provide_software
from brokerproof.systems.registry import make_observation

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SIZE, BATCH, CLIENTS, MAX_PENDING = 200, 1_000, 2, 10_000
# More than a cluster on two cores takes, so that the producers always have messages that are due.
RATE = 400_000
# Clients have this many seconds to begin, and work for this many before they are measured.
BEGIN_S, WARM_UP_S = 30.0, 2.0
# pulsar-perf's JVM, like bin/pulsar-perf of 4.0 starts it.
_PERF = (
    "-Xmx512m",
    "-Dio.netty.tryReflectionSetAccessible=true",
    *(
        part
        for module in ("sun.net", "java.lang", "java.util.zip", "java.nio", "jdk.internal.misc")
        for part in ("--add-opens", f"java.base/{module}=ALL-UNNAMED")
    ),
)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One measurement of one kind of clients."""

    work: str
    clients: str
    round: int
    messages: int
    seconds: float
    processor_s: float

    @property
    def rate(self) -> float:
        return self.messages / self.seconds

    @property
    def microseconds(self) -> float:
        """Of the clients' processor time for each message."""
        return self.processor_s / self.messages * 1e6


class Cluster:
    """The cluster, and how often its broker says that a topic's messages came or went."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.address = run.facts.addresses["broker-1"]
        self._http = httpx.Client(base_url=f"http://{self.address}:{BROKER_HTTP_PORT}", timeout=5)

    def count(self, run: Run, work: str) -> int:
        answer = self._http.get(topic.make_admin_path(topic.make_full_name(run.scenario.workload)) + "/stats")
        if answer.status_code == 404:
            return 0
        content = answer.raise_for_status().json()
        if work == "produce":
            return int(content["msgInCounter"])
        return sum(int(each["msgOutCounter"]) for each in content["subscriptions"].values())

    def make_view(self, name: str) -> Run:
        """Return a run of its own directory on this cluster, with a topic of its own."""
        workload = self.run.scenario.workload.model_copy(update={"topic": name})
        return create_view(self.run, f"{self.run.directory}/views/{name}", f"load-cost-{name}", workload)


def create_view(run: Run, directory: str, run_id: str, workload: Workload) -> Run:
    """Return a run on the cluster of `run`, with a directory and a workload of its own."""
    view = Run.create(
        directory,
        run_id=run_id,
        scenario=run.scenario.model_copy(update={"workload": workload}),
        topology=run.topology,
        addresses=run.facts.addresses,
        time_axis=run.facts.time_axis,
        sealed=True,
    )
    write_record(view, ClustersConfigured(at=clock.now_us()))
    return view


@contextmanager
def start_cluster() -> Iterator[Cluster]:
    """Start and configure a cluster of one broker and two bookies; release it at the end."""
    with tempfile.TemporaryDirectory(prefix="load-cost-") as directory:
        scenario, topology = load_scenario(
            ROOT / "tests" / "cluster" / "smallest.yaml",
            HERE / "topologies",
            {
                "topology": "load_cost",
                **{"workload.rate": RATE, "workload.size": SIZE, "workload.producers": CLIENTS},
                **{"workload.client.batching_messages": BATCH, "workload.client.max_pending": MAX_PENDING},
                "workload.subscriptions": [{"name": "audit", "type": "shared", "consumers": CLIENTS}],
                "workload.client.batch_by_key": False,
            },
        )
        find_distribution(scenario.version).fetch(lambda text: print(text, file=sys.stderr))
        run = Run(f"{directory}/run")
        try:
            lifecycle.reserve(scenario, topology, directory=run.directory, run_id="load-cost")
            lifecycle.provision(run)
            lifecycle.configure(run)
            yield Cluster(run)
        finally:
            # A signal may have ended this before the run was reserved.
            if run.exists("run.json"):
                lifecycle.release(run)


def produce_plainly(url: str, name: str) -> None:
    """Publish for ever with Pulsar's Python client alone. Nothing is recorded."""
    producer = pulsar.Client(url).create_producer(
        name,
        max_pending_messages=MAX_PENDING,
        batching_enabled=True,
        batching_max_messages=BATCH,
        batching_max_publish_delay_ms=5,
        block_if_queue_full=True,
    )
    content = os.urandom(SIZE)
    while True:
        producer.send_async(content, _ignore)


def _ignore(result: pulsar.Result, message_id: pulsar.MessageId) -> None:
    """The answer of a plain producer's message."""


def consume_plainly(url: str, name: str, subscription: str) -> None:
    """Receive and acknowledge for ever with Pulsar's Python client alone."""
    consumer = pulsar.Client(url).subscribe(
        name,
        subscription,
        consumer_type=pulsar.ConsumerType.Shared,
        initial_position=pulsar.InitialPosition.Earliest,
    )
    while True:
        consumer.acknowledge(consumer.receive())


def read_plainly(url: str, name: str) -> None:
    """Read for ever with Pulsar's Python client alone."""
    reader = pulsar.Client(url).create_reader(name, pulsar.MessageId.earliest)
    while True:
        reader.read_next()


def read_log(directory: str) -> None:
    """Read the run's log as the job `read_back` does, without Spark."""
    sys.path.insert(0, str(ROOT / "spark_jobs"))
    from read_back import ReadTask, read_log

    run = Run(directory)
    for number, log in enumerate(make_observation(run).find_logs()):
        for _ in read_log(run, ReadTask(number=number, log=log)):
            pass


@contextmanager
def start_all(commands: Sequence[Sequence[str]]) -> Iterator[list[int]]:
    """Start processes, yield their ids, and kill them at the end."""
    with tempfile.TemporaryFile() as output:
        processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output) for command in commands
        ]
        try:
            yield [process.pid for process in processes]
        finally:
            for process in processes:
                if process.poll() is not None:
                    output.seek(0)
                    print(output.read()[-3000:].decode(), file=sys.stderr)
                    raise SystemExit(f"{process.args} ended before it was measured")
            for process in processes:
                process.send_signal(signal.SIGKILL)
                process.wait()


@contextmanager
def start_product(module: str, run: Run) -> Iterator[list[int]]:
    """Start the product's clients as a Spark task does, let them begin together, and kill them at the end."""
    with ExitStack() as stack:
        processes: list[subprocess.Popen[bytes]] = []
        for number in range(CLIENTS):
            reading, writing = os.pipe()
            stack.callback(os.close, reading)
            process = subprocess.Popen(
                [sys.executable, "-m", f"brokerproof.clients.{module}", run.directory, str(number), "0", str(writing)],
                stdin=subprocess.PIPE,
                pass_fds=[writing],
            )
            os.close(writing)
            processes.append(process)
            if module == "producing":
                os.read(reading, 1)
        try:
            for process in processes:
                assert process.stdin is not None
                process.stdin.write(f"{clock.now_s() + 0.1!r}\n".encode())
                process.stdin.flush()
            yield [process.pid for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()


def measure(count: Callable[[], int], pids: Sequence[int], seconds: float, most: float) -> tuple[int, float, float]:
    """Return the messages, the seconds and the processes' processor seconds between two moments of their work.

    Ends the benchmark if the clients have got all of their messages, `most`, because they were idle then.
    """
    before = count()
    clock.wait_until(lambda: count() > before, timeout_s=BEGIN_S, what="the clients to begin", every_s=0.05)
    time.sleep(WARM_UP_S)
    samples = []
    for _ in range(2):
        processor_s = sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)
        samples.append((count(), time.monotonic(), processor_s))
        if len(samples) == 1:
            time.sleep(seconds)
    first, last = samples
    if last[0] - before >= most:
        raise SystemExit(f"the clients had all {most:,} messages before they were measured: raise --filled")
    return last[0] - first[0], last[1] - first[1], last[2] - first[2]


class Turns:
    """Every kind of work by every kind of clients, on topics of one cluster."""

    def __init__(self, cluster: Cluster, seconds: float, filled: int) -> None:
        self.cluster, self.seconds = cluster, seconds
        self._url = f"pulsar://{cluster.address}:{BROKER_PORT}"
        self._filled = filled
        self._views: dict[str, Run] = {}

    def run_round(self, number: int, works: Sequence[str]) -> Iterator[Turn]:
        for work in works:
            for clients in ("pulsar-perf", "plain", "product"):
                run = self._provide(f"{work}-{clients}-{number}" if work == "produce" else f"filled-{clients}", clients)
                most = float("inf")
                if work != "produce":
                    # Each reader reads all messages.
                    most = self.cluster.count(run, "produce") * (CLIENTS if work == "read" else 1)
                with self._start(work, clients, run, number) as pids:
                    count, seconds, processor_s = measure(
                        lambda: self.cluster.count(run, work),  # noqa: B023
                        pids,
                        self.seconds,
                        most,
                    )
                yield Turn(
                    work=work, clients=clients, round=number, messages=count, seconds=seconds, processor_s=processor_s
                )

    def _provide(self, name: str, clients: str) -> Run:
        """Return a view with a topic. Plain clients consume and read what the product's producers wrote."""
        name = "filled-product" if name == "filled-plain" else name
        if name not in self._views:
            run = self._views[name] = self.cluster.make_view(name)
            if name.startswith("filled"):
                with self._start("produce", clients if name == "filled-pulsar-perf" else "product", run, 0):
                    clock.wait_until(
                        lambda: (
                            self.cluster.count(run, "produce") >= self._filled * (3 if clients == "pulsar-perf" else 1)
                        ),
                        timeout_s=300,
                        what="the topic to be filled",
                    )
        return self._views[name]

    def _start(self, work: str, clients: str, run: Run, number: int) -> Any:
        name = topic.make_full_name(run.scenario.workload)
        subscription = f"{clients}-{number}"
        if clients == "pulsar-perf":
            command = self._make_perf_command(work, name, subscription)
            return start_all([command] * (CLIENTS if work == "read" else 1))
        if clients == "plain":
            command = [sys.executable, __file__, "--client", work, self._url, name, subscription]
            return start_all([command] * CLIENTS)
        if work == "read":
            return start_all([[sys.executable, __file__, "--client", "read-log", run.directory]] * CLIENTS)
        if work == "consume":
            run = self._subscribe(run, number)
        return start_product({"produce": "producing", "consume": "consuming"}[work], run)

    def _subscribe(self, run: Run, number: int) -> Run:
        """Return a run like `run` in a directory of its own, with a subscription of its own."""
        workload = run.scenario.workload
        subscriptions = [each.model_copy(update={"name": f"audit_{number}"}) for each in workload.subscriptions]
        workload = workload.model_copy(update={"subscriptions": subscriptions})
        return create_view(run, f"{run.directory}-consume-{number}", f"{run.run_id}-{number}", workload)

    def _make_perf_command(self, work: str, name: str, subscription: str) -> list[str]:
        software = provide_software(self.cluster.run.scenario.version, lifecycle.make_runtime(self.cluster.run))
        home = find_distribution(self.cluster.run.scenario.version).home
        java = [software.java, *_PERF, "-cp", f"{home}/conf:{software.classpath}"]
        tool = ["org.apache.pulsar.testclient.PulsarPerfTestTool", f"{home}/conf/client.conf", work, "-u", self._url]
        options = {
            "produce": [
                "-r",
                str(10 * RATE),
                "-s",
                str(SIZE),
                "-bm",
                str(BATCH),
                "-n",
                str(CLIENTS),
                "-o",
                str(MAX_PENDING),
            ],
            "consume": ["-n", str(CLIENTS), "-ss", subscription, "-st", "Shared", "-sp", "Earliest"],
            # It begins at the earliest message, and refuses this word as an option. Each process has one reader.
            "read": [],
        }
        return [*java, *tool, *options[work], name]


def summarize(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """Return one row for each work and kind of clients, with the medians of the rounds."""
    return [
        {
            "work": work,
            "clients": clients,
            "rate": statistics.median(turn.rate for turn in these),
            "least": min(turn.rate for turn in these),
            "most": max(turn.rate for turn in these),
            "microseconds": statistics.median(turn.microseconds for turn in these),
        }
        for work, clients in dict.fromkeys((turn.work, turn.clients) for turn in turns)
        for these in [[turn for turn in turns if (turn.work, turn.clients) == (work, clients)]]
    ]


def find_ratio(turns: Sequence[Turn], work: str) -> float:
    """Return the product's rate divided by that of the plain clients of the same round, as the rounds' median."""
    rates = {(turn.round, turn.clients): turn.rate for turn in turns if turn.work == work}
    rounds = {number for number, _ in rates}
    return statistics.median(rates[number, "product"] / rates[number, "plain"] for number in rounds)


def _end_in_order(number: int, frame: object) -> None:
    """End the clients and the cluster because of a signal. A further signal does not interrupt this."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="of each measurement")
    parser.add_argument("--works", nargs="+", default=["produce", "consume", "read"])
    parser.add_argument("--filled", type=int, default=2_500_000, help="messages of the topic that is consumed and read")
    parser.add_argument("--json", type=Path, help="file for the figures of each turn")
    parser.add_argument("--client", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        work, *arguments = options.client
        clients = {"produce": produce_plainly, "consume": consume_plainly, "read": read_plainly, "read-log": read_log}
        with suppress(KeyboardInterrupt):
            clients[work](*arguments[: clients[work].__code__.co_argcount])
        return
    signal.signal(signal.SIGTERM, _end_in_order)
    turns: list[Turn] = []
    with start_cluster() as cluster:
        each = Turns(cluster, options.seconds, options.filled)
        for number in range(options.rounds):
            for turn in each.run_round(number, options.works):
                turns.append(turn)
                print(
                    f"{turn.work} {turn.clients} {turn.rate:,.0f}/s {turn.microseconds:.1f} µs",
                    file=sys.stderr,
                    flush=True,
                )
    rows = summarize(turns)
    ratios = {work: find_ratio(turns, work) for work in options.works}
    if options.json:
        content = {"turns": [asdict(turn) for turn in turns], "summary": rows, "ratios": ratios}
        options.json.write_text(json.dumps(content, indent=1), encoding="utf-8")
    print("| work | clients | messages/s | least to most | µs of processor a message |\n|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row['work']} | {row['clients']} | {row['rate']:,.0f} | {row['least']:,.0f} to {row['most']:,.0f} "
            f"| {row['microseconds']:.1f} |"
        )
    for work, ratio in reversed(ratios.items()):
        print(f"{work}: product / plain {ratio:.2f}")


if __name__ == "__main__":
    main()
