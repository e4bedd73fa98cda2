"""What the link process costs: `python tests/benchmarks/link_cost.py`, a few seconds.

One connection directly to an echoing process and one through the link without delay, in turns so that both see the same
machine: round trips of small messages (p50, p99), and throughput in one direction. Prints both and their ratios, the
link's CPU seconds, and what it measured itself that it added.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from brokerproof.clock import wait_until
from brokerproof.machine.processes import end_processes, find_marked_processes
from brokerproof.network import Plan, Route, start_link_process

LISTEN, TARGET, PORT = "127.231.0.101", "127.231.0.1", 7000
CHUNK = bytes(262_144)


def serve() -> None:
    """Echo (first byte `e`) or swallow and then say so (first byte `s`)."""
    with socket.create_server((TARGET, PORT)) as listener:
        while True:
            threading.Thread(target=_serve, args=(listener.accept()[0],), daemon=True).start()


def _serve(peer: socket.socket) -> None:
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buffer = bytearray(len(CHUNK))
    echoes = peer.recv(1) == b"e"
    while size := peer.recv_into(buffer):
        if echoes:
            peer.sendall(memoryview(buffer)[:size])
    if not echoes:
        peer.sendall(b"all")
    peer.close()


def connect(address: str, kind: bytes) -> socket.socket:
    """A connection of a kind that `serve` knows."""
    peer = socket.create_connection((address, PORT), timeout=30)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.sendall(kind)
    return peer


def serves() -> bool:
    """Whether the echoing process listens yet."""
    try:
        connect(TARGET, b"s").close()
    except ConnectionRefusedError:
        return False
    return True


def round_trips_us(address: str, messages: int, size: int) -> list[float]:
    """Microseconds of so many round trips, one after the other."""
    took, message = [], bytes(size)
    with connect(address, b"e") as peer:
        for _ in range(messages):
            started = time.perf_counter()
            peer.sendall(message)
            received = 0
            while received < size:
                received += len(peer.recv(size))
            took.append((time.perf_counter() - started) * 1e6)
    return took


def throughput_mb_per_s(address: str, megabytes: int) -> float:
    """Megabytes a second in one direction, until the receiver says that it has everything."""
    chunks = megabytes * 1_000_000 // len(CHUNK)
    with connect(address, b"s") as peer:
        started = time.perf_counter()
        for _ in range(chunks):
            peer.sendall(CHUNK)
        peer.shutdown(socket.SHUT_WR)
        peer.recv(3)
        return chunks * len(CHUNK) / 1e6 / (time.perf_counter() - started)


def main() -> None:
    """Measure in turns, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--messages", type=int, default=2_000, help="round trips a round")
    parser.add_argument("--size", type=int, default=200, help="bytes of a small message")
    parser.add_argument("--megabytes", type=int, default=200, help="sent a round")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve()
    route = Route(
        viewer="a",
        viewer_region="here",
        target="b",
        target_region="there",
        listen_address=LISTEN,
        target_address=TARGET,
        ports=[PORT],
    )
    with tempfile.TemporaryDirectory() as run, subprocess.Popen([sys.executable, __file__, "--serve"]) as server:
        try:
            link = start_link_process(Path(run) / "nodes", Plan(routes=[route]))
            places = {"direct": TARGET, "link": LISTEN}
            wait_until(serves, timeout_s=10, what="the echoing process to listen", every_s=0.02)
            trips: dict[str, list[float]] = {place: [] for place in places}
            throughputs: dict[str, list[float]] = {place: [] for place in places}
            for address in places.values():
                round_trips_us(address, options.messages, options.size)
            before = link.metrics()
            for _ in range(options.rounds):
                for place, address in places.items():
                    trips[place] += round_trips_us(address, options.messages, options.size)
            between = link.metrics()
            for _ in range(options.rounds):
                for place, address in places.items():
                    throughputs[place].append(throughput_mb_per_s(address, options.megabytes))
            after = link.metrics()
        finally:
            end_processes(find_marked_processes(Path(run)))
            server.kill()
    for name, quantile in (("p50", 50), ("p99", 99)):
        direct, through = (statistics.quantiles(trips[place], n=100)[quantile - 1] for place in places)
        print(f"round trip {name}: {direct:.0f} µs direct, {through:.0f} µs through the link, {through / direct:.2f}×")
    direct, through = (statistics.median(throughputs[place]) for place in places)
    print(f"throughput: {direct:.0f} MB/s direct, {through:.0f} MB/s through the link, {through / direct:.2f}×")
    messages, gigabytes = options.rounds * options.messages, options.rounds * options.megabytes / 1000
    print(
        f"CPU of the link: {(between.cpu_s - before.cpu_s) / messages * 1e6:.1f} µs a round trip, "
        f"{(after.cpu_s - between.cpu_s) / gigabytes:.2f} s a GB"
    )
    added = between.pairs[0].added
    print(f"the link's own word on what it added one way: p50 {added.p50_ms:.3f} ms, p99 {added.p99_ms:.3f} ms")
    return None


if __name__ == "__main__":
    main()
