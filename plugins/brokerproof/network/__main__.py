"""The link process, which carries a run's connections between regions: `python -m brokerproof.network DIRECTORY`.

DIRECTORY contains link.json, the plan of the routes, and in a container also control.json, the address at which the
process listens for requests. In a container, the process first adds the addresses of all routes to its network
interfaces, because a container engine assigns only one address per network. This needs the capability NET_ADMIN and the
program `ip` of iproute2.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import resource
import subprocess
import sys
from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path

from brokerproof.errors import MachineError
from brokerproof.experiment.yaml_models import parse
from brokerproof.machine.processes import CANNOT_START
from brokerproof.network.control import Control
from brokerproof.network.control_address import AddressOfControl, PathOfControl, choose_path
from brokerproof.network.emulated_network import EmulatedNetwork
from brokerproof.network.link_process import CONTROL_FILE, PLAN_FILE, record_link_process
from brokerproof.network.plan import Plan
from brokerproof.network.poller import Poller

_TIMEOUT_S = 30


def take_addresses(addresses: Collection[str]) -> None:
    """Add each address to the interface whose network contains it.

    Raises MachineError if an address is in no interface's network, or cannot be added.
    """
    found = json.loads(_run_ip("-json", "-4", "address", "show"))
    interfaces = {
        IPv4Interface(f"{one['local']}/{one['prefixlen']}").network: interface["ifname"]
        for interface in found
        for one in interface["addr_info"]
    }
    commands = []
    for address in addresses:
        name = next((name for network, name in interfaces.items() if IPv4Address(address) in network), None)
        if name is None:
            raise MachineError(f"{address} is in none of the networks {', '.join(map(str, interfaces))}")
        commands.append(f"address add {address}/32 dev {name}")
    _run_ip("-batch", "-", given="\n".join(commands) + "\n")


def _run_ip(*arguments: str, given: str = "") -> str:
    try:
        done = subprocess.run(
            ["ip", *arguments], input=given, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"`ip {' '.join(arguments)}` cannot be run: {error}") from error
    if done.returncode != 0:
        raise MachineError(f"`ip {' '.join(arguments)}` failed: {done.stderr.strip()}")
    return done.stdout


def main(directory: Path) -> int:
    """Serve all routes until the process is killed. If it cannot start, return its exit status."""
    file = directory / PLAN_FILE
    plan = parse(Plan, json.loads(file.read_text(encoding="utf-8")), file=str(file))
    # The poller is made before the thousands of listeners, because select needs a file descriptor below 1024.
    poller = Poller()
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    try:
        # Only a link process in a container has this file.
        if (directory / CONTROL_FILE).exists():
            take_addresses(sorted({route.listen_address for route in plan.routes}))
        control = _find_control(directory)
        network = EmulatedNetwork(plan, poller)
        Control(control, network, poller)
    except MachineError as error:
        print(error, file=sys.stderr, flush=True)
        return CANNOT_START
    record_link_process(directory.parent, os.getpid(), control)
    # The objects that exist now live until the process ends, so the garbage collector need not look at them.
    gc.freeze()
    poller.run()
    return os.EX_OK


def _find_control(directory: Path) -> PathOfControl | AddressOfControl:
    """Return the path, or in a container the address, at which the link process listens for requests.

    Raises MachineError if no path can be used for the control socket.
    """
    file = directory / CONTROL_FILE
    if not file.exists():
        return choose_path(directory)
    return parse(AddressOfControl, json.loads(file.read_text(encoding="utf-8")), file=str(file))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    sys.exit(main(Path(sys.argv[1])))
