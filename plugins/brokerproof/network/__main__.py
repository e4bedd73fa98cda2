"""The link process: `python -m brokerproof.network DIRECTORY`, where DIRECTORY holds link.json."""

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
from brokerproof.machine.files import write_whole
from brokerproof.network.control import Control, socket_path
from brokerproof.network.network import EmulatedNetwork
from brokerproof.network.plan import Plan
from brokerproof.network.poller import Poller
from brokerproof.network.process import ADDRESS_TAKEN, PLAN_FILE, READY_FILE


def main(directory: Path) -> int:
    """Serve all routes until the process is ended; the exit status where it cannot begin."""
    file = directory / PLAN_FILE
    plan = parse(Plan, json.loads(file.read_text(encoding="utf-8")), file=str(file))
    # The poller's own number must be small, because select takes none from 1024 on; listeners take thousands.
    poller = Poller()
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    try:
        network = EmulatedNetwork(plan, poller)
        path = socket_path(directory)
        Control(path, network, poller)
    except MachineError as error:
        print(error, file=sys.stderr, flush=True)
        return ADDRESS_TAKEN
    write_whole(directory / READY_FILE, json.dumps({"pid": os.getpid(), "control": str(path)}))
    # What exists by now lives as long as the process: the collector need not look at it again and again.
    gc.freeze()
    poller.run()
    return os.EX_OK


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    sys.exit(main(Path(sys.argv[1])))
