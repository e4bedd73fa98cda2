"""The link process in a container of its own: the only way between the networks of the regions.

It is in each of them, and listens at the addresses at which nodes of one region see nodes of the others. It is asked at
its address in the first of them, with a secret that only it and the run's directory hold.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from brokerproof.clock import list_variables, wait_until
from brokerproof.errors import DeadlineError, MachineError, NodeError
from brokerproof.network import ADDRESS_TAKEN, AddressOfControl, Link, Plan, list_files_of_link, record_link
from brokerproof.runtimes.engine import NODE, Container, RunInEngine
from brokerproof.settings import from_environment

NAME = "link"
# No system listens there.
_PORT = 7999
_START_TIMEOUT_S = 60.0
_TAIL_LINES = 15


def start_gateway(mine: RunInEngine, nodes: Path, plan: Plan) -> Link:
    """Start it and wait until it answers.

    Raises MachineError where its image is not here or an address is taken, NodeError where it does not start.
    """
    client, secret = mine.client, secrets.token_urlsafe(32)
    first = mine.list_networks()[0]["Name"]
    inside = AddressOfControl(host="0.0.0.0", port=_PORT, secret=secret)
    container = mine.create(
        Container(
            name=NAME,
            image=from_environment().image,
            is_ours=True,
            command=("python", "-m", "brokerproof.network", f"{{node}}/{NAME}"),
            environment=list_variables(),
            files={f"{NAME}/{file}": text for file, text in list_files_of_link(plan, inside).items()},
            labels={NODE: NAME},
            network=first,
            # To take the addresses that it listens on.
            capabilities=("NET_ADMIN",),
        )
    )
    mine.join_all_networks(container)
    client.start(container)
    found = client.inspect_container(container)
    address = found["NetworkSettings"]["Networks"][first]["IPAddress"]
    link = record_link(nodes, found["State"]["Pid"], AddressOfControl(host=address, port=_PORT, secret=secret))

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
        raise NodeError(f"{error}; its log ends with\n{_read_log(mine, container)}") from None
    if is_over():
        log = _read_log(mine, container)
        if client.inspect_container(container)["State"]["ExitCode"] == ADDRESS_TAKEN:
            raise MachineError(log.splitlines()[-1])
        raise NodeError(f"the link ended while it started; its log ends with\n{log}")
    return link


def _read_log(mine: RunInEngine, container: str) -> str:
    text: bytes = mine.client.logs(container, tail=_TAIL_LINES)
    return text.decode(errors="replace").strip()
