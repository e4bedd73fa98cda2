"""The program: one node.

Usage: python server.py CONFIGURATION

configuration.py describes the file. The node listens only on its own address, writes only below its data directory, and
ends on SIGTERM. It ends with status 1 if its state is not valid.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import Any

# Python puts the program's own folder on the path, but not the folder of the package `testlog`.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from testlog.configuration import ServerConfiguration
from testlog.service import Service
from testlog.session import Session

_TICK_S = 0.05

log = logging.getLogger("testlog")


async def run_node(configuration: ServerConfiguration) -> int:
    """Run until a signal or an unexpected error ends the node. Return the exit status."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()

    def end(status: int) -> None:
        if not ended.done():
            ended.set_result(status)

    def fail(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        log.error("%s", context["message"], exc_info=context.get("exception"))
        end(1)

    loop.set_exception_handler(fail)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, 0)
    service = Service(configuration)
    handlers = service.handlers | service.node.handlers
    await loop.create_server(lambda: Session(handlers), configuration.address, configuration.port)
    dialling = [asyncio.create_task(peer.dial_forever()) for peer in service.node.peers]

    def tick() -> None:
        loop.call_later(_TICK_S, tick)
        service.tick()

    tick()
    log.info("%s listens on %s:%d", configuration.name, configuration.address, configuration.port)
    status = await ended
    for task in dialling:
        task.cancel()
    return status


def main() -> int:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stdout)
    try:
        configuration = ServerConfiguration.load(Path(sys.argv[1]))
    except (IndexError, OSError, KeyError, ValueError) as error:
        print(f"usage: server.py CONFIGURATION, a file as configuration.py describes it: {error!r}", file=sys.stderr)
        return 2
    try:
        return asyncio.run(run_node(configuration))
    except OSError as error:
        print(f"{configuration.name} cannot run: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
