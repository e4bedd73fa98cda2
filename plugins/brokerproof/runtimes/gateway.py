"""The link process in a container of its own, which carries all traffic between the networks of the regions.

The container joins each of these networks. The link process listens at the addresses at which nodes of one region see
nodes of the others. Requests to change the links go to its address in the first network. Each request needs a secret,
which only the container and the run's directory hold.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from brokerproof.clock import list_variables, wait_until
from brokerproof.errors import DeadlineError, MachineError, NodeError
from brokerproof.network import (
    ADDRESS_TAKEN,
    AddressOfControl,
    LinkClient,
    Plan,
    list_link_process_files,
    record_link_process,
)
from brokerproof.runtimes.engine import NODE, Container, RunInEngine
from brokerproof.settings import from_environment

NAME = "link"
# The port for requests, on which no node of a system listens.
_PORT = 7999
_START_TIMEOUT_S = 60.0
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

    def is_over() -> bool:
        return not client.inspect_container(container)["State"]["Running"]

    def answers() -> bool:
        try:
            link.ping()
        except NodeError:
            return False
        return True

    try:
        wait_until(lambda: answers() or is_over(), timeout_s=_START_TIMEOUT_S, what="the link to answer")
    except DeadlineError as error:
        raise NodeError(f"{error}; its log ends with\n{_read_log(in_engine, container)}") from None
    if is_over():
        log = _read_log(in_engine, container)
        if client.inspect_container(container)["State"]["ExitCode"] == ADDRESS_TAKEN:
            raise MachineError(log.splitlines()[-1])
        raise NodeError(f"the link ended while it started; its log ends with\n{log}")
    return link


def _read_log(in_engine: RunInEngine, container: str) -> str:
    text: bytes = in_engine.client.logs(container, tail=_TAIL_LINES)
    return text.decode(errors="replace").strip()
