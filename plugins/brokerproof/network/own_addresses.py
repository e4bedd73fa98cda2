"""The addresses that a link process in a container adds to itself, as the engine assigns only one per network.

The process needs the capability NET_ADMIN in its own network namespace, and the program `ip` of iproute2.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Interface

from brokerproof.errors import MachineError

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
