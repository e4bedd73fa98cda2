"""The link process: `python -m brokerproof.network DIRECTORY`, where DIRECTORY holds link.json.

In a container DIRECTORY holds control.json too, which says where the process is asked, and it takes the addresses that
it has to listen on.
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
from brokerproof.network.network import EmulatedNetwork
from brokerproof.network.own_addresses import take_addresses
from brokerproof.network.plan import Plan
from brokerproof.network.poller import Poller
from brokerproof.network.process import ADDRESS_TAKEN, CONTROL_FILE, PLAN_FILE, record_link


def main(directory: Path) -> int:
    """Serve all routes until the process is ended; the exit status where it cannot begin."""
    file = directory / PLAN_FILE
    plan = parse(Plan, json.loads(file.read_text(encoding="utf-8")), file=str(file))
    # The poller's own number must be small, because select takes none from 1024 on; listeners take thousands.
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
    record_link(directory.parent, os.getpid(), control)
    # What exists by now lives as long as the process: the collector need not look at it again and again.
    gc.freeze()
    poller.run()
    return os.EX_OK


def _find_control(directory: Path, plan: Plan) -> PathOfControl | AddressOfControl:
    """Raises MachineError."""
    file = directory / CONTROL_FILE
    if not file.exists():
        return choose_path(directory)
    take_addresses(sorted({route.listen_address for route in plan.routes}))
    return parse(AddressOfControl, json.loads(file.read_text(encoding="utf-8")), file=str(file))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    sys.exit(main(Path(sys.argv[1])))
