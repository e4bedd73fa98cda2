"""The link process: `python -m brokerproof.network DIRECTORY`, where DIRECTORY contains link.json.

In a container, DIRECTORY also contains control.json with the address for requests. The process then first adds the
addresses that it listens on to its network interfaces.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import resource
import sys
from pathlib import Path

from brokerproof.errors import MachineError
from brokerproof.experiment.yaml_models import parse
from brokerproof.network.control import Control
from brokerproof.network.control_address import AddressOfControl, PathOfControl, choose_path
from brokerproof.network.emulated_network import EmulatedNetwork
from brokerproof.network.link_process import ADDRESS_TAKEN, CONTROL_FILE, PLAN_FILE, record_link_process
from brokerproof.network.own_addresses import take_addresses
from brokerproof.network.plan import Plan
from brokerproof.network.poller import Poller


def main(directory: Path) -> int:
    """Serve all routes until the process is killed. If it cannot start, return its exit status."""
    file = directory / PLAN_FILE
    plan = parse(Plan, json.loads(file.read_text(encoding="utf-8")), file=str(file))
    # The poller is made before the thousands of listeners, because select needs a file descriptor below 1024.
    poller = Poller()
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    try:
        control = _find_control(directory, plan)
        network = EmulatedNetwork(plan, poller)
        Control(control, network, poller)
    except MachineError as error:
        print(error, file=sys.stderr, flush=True)
        return ADDRESS_TAKEN
    record_link_process(directory.parent, os.getpid(), control)
    # The objects that exist now live until the process ends, so the garbage collector need not look at them.
    gc.freeze()
    poller.run()
    return os.EX_OK


def _find_control(directory: Path, plan: Plan) -> PathOfControl | AddressOfControl:
    """Return where to listen for requests. In a container, first add the addresses of all routes to the interfaces.

    Raises MachineError if an address cannot be added, or if the control socket has no usable path.
    """
    file = directory / CONTROL_FILE
    if not file.exists():
        return choose_path(directory)
    take_addresses(sorted({route.listen_address for route in plan.routes}))
    return parse(AddressOfControl, json.loads(file.read_text(encoding="utf-8")), file=str(file))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    sys.exit(main(Path(sys.argv[1])))
