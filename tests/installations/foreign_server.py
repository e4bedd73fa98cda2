"""A server of somebody else, as another Airflow looks to a user who is not its own: every answer is 401."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_PROGRAM = """
import http.server, json, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"detail": "Invalid credentials"}).encode()
        self.send_response(401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_): ...

server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("listening", flush=True)
server.serve_forever()
"""


class ForeignServers:
    """The foreign servers that a test started, in their order."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, port: int) -> subprocess.Popen[str]:
        """Start one at a port, and return it once it listens."""
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(port)], stdout=subprocess.PIPE, start_new_session=True, text=True
        )
        self.processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "listening\n", f"the foreign server cannot listen at {port}"
        return process


@contextmanager
def run_foreign_servers() -> Iterator[ForeignServers]:
    """End all that the block started."""
    servers = ForeignServers()
    try:
        yield servers
    finally:
        for process in servers.processes:
            process.kill()
            process.communicate()
