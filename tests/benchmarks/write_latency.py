"""What the distance between the regions costs a publish: `python tests/benchmarks/write_latency.py`, about 4 minutes.

Two real clusters, one after the other: `sync_active_passive`, which has no link, and `sync_active_passive_wan` with a
link whose delay is raised while it runs. One producer publishes messages one after the other, each when the one before
is acked, so that a latency is a message's own and no queue's. The difference between no link and a link of 0 ms is what
the emulation itself costs.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from brokerproof import lifecycle
from brokerproof.checks import load_scenario
from brokerproof.network import Condition, LinkClient
from brokerproof.run.directory import Run
from brokerproof.systems.clients import Settled
from brokerproof.systems.registry import make_clients

ROOT = Path(__file__).parents[2]
_WARM_UP = 20


@contextmanager
def cluster(**settings: Any) -> Iterator[Run]:
    """A configured cluster of `sync_nominal`'s; ended afterwards."""
    with tempfile.TemporaryDirectory(prefix="write-latency-") as directory:
        scenario, topology = load_scenario(
            ROOT / "dags" / "scenarios" / "sync_nominal.yaml",
            ROOT / "topologies",
            # Without batches, because one would wait 5 ms to fill.
            {"workload.client.batching_delay_ms": 0, **settings},
        )
        run = lifecycle.reserve(scenario, topology, directory=f"{directory}/run", run_id="write-latency")
        try:
            lifecycle.provision(run)
            lifecycle.configure(run)
            yield run
        finally:
            lifecycle.release(run)


def latencies_ms(run: Run, region: str | None, seconds: float) -> list[float]:
    """Of messages that are published one after the other for so long; those of the warm-up are left out."""
    clients = make_clients(run, "mycluster", region)
    try:
        producer = clients.producer(f"latency-{region}-{time.monotonic_ns()}")
        found: list[float] = []
        ends_at = time.monotonic() + seconds
        seq = 0
        while time.monotonic() < ends_at or len(found) < 20:
            settled = threading.Event()
            answers: list[Settled] = []

            def answer(said: Settled, answers: list[Settled] = answers, settled: threading.Event = settled) -> None:
                answers.append(said)
                settled.set()

            started = time.monotonic()
            producer.send(seq, "k0", b"x" * 200, answer)
            if not settled.wait(60) or answers[0].outcome != "acked":
                raise SystemExit(f"message {seq} was not acked: {answers}")
            if seq >= _WARM_UP:
                found.append((time.monotonic() - started) * 1000)
            seq += 1
        producer.close()
        return found
    finally:
        clients.close()


def show(link: str, place: str, found: list[float]) -> None:
    """One row."""
    quantiles = statistics.quantiles(found, n=100)
    print(f"| {link} | {place} | {len(found)} | {quantiles[49]:.1f} | {quantiles[98]:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8, help="of each measurement")
    parser.add_argument("--delays-ms", type=float, nargs="+", default=[0, 5, 20, 50], help="one way")
    options = parser.parse_args()
    print("| link, one way | producer | messages | p50 ms | p99 ms |\n|---|---|---|---|---|")
    with cluster() as run:
        show("none", "beside the owner", latencies_ms(run, None, options.seconds))
    with cluster(topology="sync_active_passive_wan", overrides={"links.0.delay_ms": 0}) as run:
        link = LinkClient(Path(run.path("nodes")))
        regions = {**{name: node.region for name, node in run.topology.nodes.items()}, **run.topology.places}
        eu, us = ([name for name, at in regions.items() if at == region] for region in ("eu", "us"))
        for delay_ms in options.delays_ms:
            if delay_ms:
                link.add(Condition(id="distance", senders=eu, receivers=us, both_ways=True, delay_ms=delay_ms))
            for region, place in (("eu", "in the owner's region"), ("us", "in the other region")):
                show(f"{delay_ms:g} ms", place, latencies_ms(run, region, options.seconds))
            if delay_ms:
                link.remove("distance")


if __name__ == "__main__":
    main()
