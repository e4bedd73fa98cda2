"""Whether judging comes to the same everywhere: `make bench-places MESSAGES=1000000 SUSPICIOUS=0.001`.

A generated run is judged in three places: by threads of one process of Spark; by Spark's standalone master with two
workers, whose executors are processes of their own and share this machine's disk; and by the first again, but from an
object store, an S3 server on loopback. In each place exactly the planted anomalies must be found. The table has
seconds and processor seconds, without those of the object store's server. The last line has the ratios of seconds.
"""

from __future__ import annotations

import argparse
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import fsspec
from moto.server import ThreadedMotoServer
from verify_scale import compare, run_step

# Cores and MiB of each worker are the last two numbers.
STANDALONE = "local-cluster[2,1,2048]"


@contextmanager
def object_store(directory: str) -> Iterator[str]:
    """Serve S3 on loopback, with a copy of the run in it, and yield the copy's URL."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        os.environ |= {
            "FSSPEC_S3_ENDPOINT_URL": f"http://{host}:{port}",
            "FSSPEC_S3_KEY": secrets.token_hex(8),
            "FSSPEC_S3_SECRET": secrets.token_hex(8),
        }
        fsspec.config.set_conf_env(fsspec.config.conf)
        store = fsspec.filesystem("s3")
        store.mkdir("runs")
        store.put(directory, "runs/run", recursive=True)
        yield "s3://runs/run"
    finally:
        server.stop()


def main() -> None:
    """Write the run, and judge it in each place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", default="1000000")
    parser.add_argument("--suspicious", default="0.001", choices=["0.001", "0.3"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        run = f"{work}/run"
        written = run_step("--write", run, "--messages", options.messages, "--suspicious", options.suspicious)
        judged = {
            "one process": run_step("--judge", run),
            "standalone": run_step("--judge", run, "--master", STANDALONE),
        }
        with object_store(run) as url:
            judged["object store"] = run_step("--judge", url)
    print(f"{'place':<16}{'seconds':>10}{'CPU s':>10}")
    for place, answer in judged.items():
        compare(place, answer["found"], written["planted"])
        step = answer["steps"]["judging"]
        print(f"{place:<16}{step['seconds']:>10.1f}{step['cpu_s']:>10.1f}")
    first, *others = (answer["steps"]["judging"]["seconds"] for answer in judged.values())
    print("seconds / those of one process:", *(f"{other / first:.2f}" for other in others))


if __name__ == "__main__":
    main()
