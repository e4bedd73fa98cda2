"""Starts a run's link process in a container. This process carries all traffic between the networks of the regions.

The container joins the network of each region. There, the link process listens at the addresses that nodes use for
nodes of other regions. Requests to change the links go to its address in the first network. Each request needs a
secret, which only the container and the run's directory hold.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from brokerproof.clock import list_variables
from brokerproof.errors import NodeError
from brokerproof.machine.processes import await_start
from brokerproof.network import AddressOfControl, LinkClient, Plan, list_link_process_files, record_link_process
from brokerproof.runtimes.engine import NODE, Container, RunInEngine
from brokerproof.settings import from_environment

NAME = "link"
# The port for requests, on which no node of a system listens.
_PORT = 7999
_TAIL_LINES = 15


def start_gateway(in_engine: RunInEngine, nodes: Path, plan: Plan) -> LinkClient:
    """Start the link process in a container and wait until it answers.

    Raises MachineError if the image is missing or an address is taken, NodeError if the process does not start.
    """
    client, secret = in_engine.client, secrets.token_urlsafe(32)
    first = in_engine.list_networks()[0]["Name"]
    inside = AddressOfControl(host="0.0.0.0", port=_PORT, secret=secret)
    container = in_engine.create(
        Container(
            name=NAME,
            image=from_environment().image,
            is_ours=True,
            command=("python", "-m", "brokerproof.network", f"{{node}}/{NAME}"),
            environment=list_variables(),
            files={f"{NAME}/{file}": text for file, text in list_link_process_files(plan, inside).items()},
            labels={NODE: NAME},
            network=first,
            # The link process needs this to add the addresses that it listens on to its interfaces.
            capabilities=("NET_ADMIN",),
        )
    )
    in_engine.join_all_networks(container)
    client.start(container)
    found = client.inspect_container(container)
    address = found["NetworkSettings"]["Networks"][first]["IPAddress"]
    link = record_link_process(nodes, found["State"]["Pid"], AddressOfControl(host=address, port=_PORT, secret=secret))

    def answers() -> bool:
        try:
            return link.ping() > 0
        except NodeError:
            return False

    def find_status() -> int | None:
        state = client.inspect_container(container)["State"]
        return None if state["Running"] else int(state["ExitCode"])

    def read_log() -> str:
        text: bytes = client.logs(container, tail=_TAIL_LINES)
        return text.decode(errors="replace").strip()

    await_start("the link process", answers, find_status, read_log)
    return link
