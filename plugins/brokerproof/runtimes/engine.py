"""The containers, networks and volumes of a run in Docker's engine.

Each object has the labels of its run. So a run's objects are found again after a crash, and objects of other programs
are never touched. Each request has an object's name, never its id: the proxy of docker-compose.yaml
(deploy/engine/haproxy.cfg) allows a request if the name begins with that of this installation.
"""

from __future__ import annotations

import io
import json
import logging
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound, NotFound

from brokerproof.clock import wait_until
from brokerproof.errors import MachineError, NodeError
from brokerproof.machine.files import write_whole
from brokerproof.settings import from_environment

log = logging.getLogger(__name__)

T = TypeVar("T")

_LABEL = "org.brokerproof."
# Labels: the directory that holds the run's slot (machine/slots.py), and the directory of the run's nodes.
SLOTS, RUN = f"{_LABEL}slots", f"{_LABEL}run"
NODE, ROLE, REGION = f"{_LABEL}node", f"{_LABEL}role", f"{_LABEL}region"
# The directory of a node's files in its container.
HOME = "/node"
# The address and path at which Prometheus scrapes a node (deploy/prometheus.yaml reads these labels).
METRICS_ADDRESS, METRICS_PATH = f"{_LABEL}metrics.address", f"{_LABEL}metrics.path"
# The label of containers in which Brokerproof or its clients run. They belong to no run, and join the networks of every
# run whose label `SLOTS` has the same value.
CLIENTS = f"{_LABEL}clients"
# States of a container that was started and has not ended.
RUNNING = frozenset({"running", "paused"})
_TIMEOUT_S = 60
_MIB = 2**20
# Parts of the engine's messages, with various statuses, about an object that is being removed or was just removed.
_GOES = ("already in progress", "marked for removal", "is not connected to")
# A part of the engine's message if a network to be removed still has containers.
_IN_USE = "has active endpoints"
# Seconds that a container may take to leave a network, and all containers of a run to be removed.
_GO_S = 20.0
# The highest number of simultaneous requests to the engine.
_AT_ONCE = 8
SOCKET = "/var/run/docker.sock"
_REMEDY = "start Docker, or say in DOCKER_HOST where it listens"


@lru_cache(maxsize=8)
def connect(host: str | None = None) -> docker.APIClient:
    """Return a client of the engine at `host`, written as in `DOCKER_HOST`.

    If `host` is empty, use this machine's engine. Raises MachineError if the engine does not answer.
    """
    environment = {name: value for name, value in os.environ.items() if name != "DOCKER_HOST"}
    if host:
        environment["DOCKER_HOST"] = host
    with translate_engine_errors(f"Docker's engine {f'at {host} ' if host else ''}cannot be used"):
        return docker.from_env(timeout=_TIMEOUT_S, environment=environment).api


def find_engine() -> docker.APIClient:
    """Return a client of the engine that the variable `DOCKER_HOST` names, or else of this machine's engine."""
    return connect(os.environ.get("DOCKER_HOST"))


@contextmanager
def translate_engine_errors(problem: str) -> Iterator[None]:
    """Translate errors in the block: MachineError if the engine does not answer, NodeError if it refuses a request."""
    try:
        yield
    except APIError as error:
        raise NodeError(f"{problem}: Docker says {error.explanation or error}") from error
    except (DockerException, requests.RequestException, OSError) as error:
        raise MachineError(f"{problem}: {_find_reason(error)}; {_REMEDY}") from error


def _find_reason(error: BaseException) -> str:
    """Return the operating system's message from the OSError that `error` is or wraps; else `error`'s own message."""
    wrapped: BaseException | None = error
    while wrapped is not None:
        if isinstance(wrapped, OSError) and wrapped.strerror:
            return wrapped.strerror
        wrapped = wrapped.__cause__ or wrapped.__context__
    return str(error)


@dataclass(frozen=True, kw_only=True)
class Container:
    """A container to be made. In its command and files, `{node}` is the directory `HOME` and `{host}` the host name."""

    # The container's name in the run, which is also its host name.
    name: str
    image: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    # {path: content} of files, and paths of directories. All paths are below the container's directory.
    files: Mapping[str, str] = field(default_factory=dict)
    folders: Sequence[str] = ()
    # {volume: path below the container's directory}
    volumes: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    # The network in which the container is made, and its address there. If no address is given, the engine chooses one.
    network: str | None = None
    address: str | None = None
    # {port of this machine's loopback: port of the container}
    published: Mapping[int, int] = field(default_factory=dict)
    memory_mb: int | None = None
    healthcheck: Mapping[str, Any] | None = None
    # The image is built on this machine, and is never fetched from a registry.
    is_ours: bool = False
    # A container with capabilities runs as root, any other as the image's user.
    capabilities: Sequence[str] = ()


class RunInEngine:
    """The containers, networks and volumes of one run in the engine."""

    def __init__(self, nodes: Path) -> None:
        """`nodes` is the run's directory `nodes/`, which has one subdirectory per node."""
        self.labels: Mapping[str, str] = {SLOTS: _name_slots(), RUN: str(nodes)}
        self._record = nodes / "containers.json"
        installation = from_environment().installation
        self.prefix = "-".join(filter(None, ("brokerproof", installation, nodes.parent.name)))
        self._filters = {"label": [f"{name}={value}" for name, value in self.labels.items()]}

    @property
    def client(self) -> docker.APIClient:
        """A client of the engine that the run used first, even if `DOCKER_HOST` has changed since."""
        return connect(self._host)

    @cached_property
    def _host(self) -> str | None:
        try:
            return json.loads(self._record.read_text(encoding="utf-8"))["host"]
        except (FileNotFoundError, KeyError):
            return os.environ.get("DOCKER_HOST")

    def has_begun(self) -> bool:
        """Return whether the run has used the engine."""
        return self._record.exists()

    def begin(self) -> None:
        """Record that the run uses the engine, and at which host. Raises MachineError if the engine does not answer."""
        if not self.has_begun():
            # An engine that does not answer is not recorded: it has no objects of the run to be removed later.
            connect(self._host)
            self._record.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._record, json.dumps({**self.labels, "host": self._host}))

    def name(self, of: str) -> str:
        """Return the name that a container, network or volume of the run has in the engine."""
        return f"{self.prefix}-{of}"

    def create(self, wanted: Container) -> str:
        """Make a container with its files and return its name. Raises MachineError if its image cannot be provided."""
        client, name = self.client, self.name(wanted.name)
        described = provide_image(client, wanted.image, is_ours=wanted.is_ours)
        owner = 0 if wanted.capabilities else _find_owner(described)
        joins = {}
        if wanted.network:
            joins[wanted.network] = client.create_endpoint_config(ipv4_address=wanted.address, aliases=[wanted.name])
        client.create_container(
            wanted.image,
            command=[fill(part, wanted.name) for part in wanted.command],
            # The command is complete, but the image may have an entry point of its own.
            entrypoint=[],
            name=name,
            hostname=wanted.name,
            user=str(owner),
            environment={"LANG": "C.UTF-8", **wanted.environment},
            working_dir=HOME,
            labels={**self.labels, **wanted.labels},
            ports=list(wanted.published.values()),
            volumes=[f"{HOME}/{folder}" for folder in wanted.volumes.values()],
            host_config=client.create_host_config(
                binds={volume: {"bind": f"{HOME}/{folder}"} for volume, folder in wanted.volumes.items()},
                network_mode=wanted.network or "none",
                port_bindings={port: ("127.0.0.1", here) for here, port in wanted.published.items()},
                mem_limit=wanted.memory_mb * _MIB if wanted.memory_mb else None,
                cap_add=list(wanted.capabilities),
            ),
            networking_config=client.create_networking_config(joins) if joins else None,
            healthcheck=wanted.healthcheck,
        )
        files = {path: fill(content, wanted.name) for path, content in wanted.files.items()}
        folders = (*wanted.folders, *wanted.volumes.values())
        client.put_archive(name, "/", pack(HOME, owner, folders, files))
        return name

    def join_all_networks(self, container: str) -> None:
        """Connect a container to the networks of the run that it is not in."""
        joined = self.client.inspect_container(container)["NetworkSettings"]["Networks"]
        for network in self.list_networks():
            if network["Name"] not in joined:
                self.client.connect_container_to_network(container, network["Name"])

    def create_network(self, name: str, *, pool: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """Make a network of the run, and connect to it the containers in which Brokerproof and its clients run.

        Raises APIError if the engine refuses a request.
        """
        network = self.name(name)
        self.client.create_network(network, driver="bridge", ipam={"Config": [pool]}, labels={**self.labels, **labels})
        for container in self.client.containers(filters={"label": [f"{CLIENTS}={self.labels[SLOTS]}"]}):
            self.client.connect_container_to_network(find_name(container), network)

    def list_containers(self) -> list[dict[str, Any]]:
        """Return the engine's descriptions of the run's containers, including those that do not run."""
        return list(self.client.containers(all=True, filters=self._filters))

    def list_networks(self) -> list[dict[str, Any]]:
        """Return the engine's descriptions of the run's networks."""
        return list(self.client.networks(filters=self._filters))

    def remove_containers(self) -> None:
        """End and remove all containers of the run.

        This is repeated until none is left, because the engine may still be making one for a process that died.
        """
        wait_until(self._remove_containers, timeout_s=_GO_S, what="the run's containers to go")

    def _remove_containers(self) -> bool:
        ask_for_each(self.list_containers(), lambda container: remove_container(self.client, find_name(container)))
        return not self.list_containers()

    def remove_networks(self) -> None:
        """Remove the run's networks, after disconnecting all containers, including stopped containers of clients."""
        for network in self.list_networks():
            wait_until(
                partial(self._remove_network, network),
                timeout_s=_GO_S,
                what=f"every container to leave the network {network['Name']}",
            )

    def _remove_network(self, network: Mapping[str, Any]) -> bool:
        """Disconnect all containers and remove the network. Returns False if a container is still in it."""
        clients = self.client.containers(all=True, filters={"label": [f"{CLIENTS}={self.labels[SLOTS]}"]})
        name = network["Name"]
        stopped = [find_name(one) for one in clients if name in one["NetworkSettings"]["Networks"]]
        with allow_absence():
            running = [one["Name"] for one in self.client.inspect_network(name)["Containers"].values()]
            for container in {*running, *stopped}:
                with allow_absence():
                    self.client.disconnect_container_from_network(container, name, force=True)
            try:
                self.client.remove_network(name)
            except APIError as error:
                if _IN_USE not in str(error.explanation):
                    raise
                return False
        return True

    def remove_volumes(self) -> None:
        for volume in self.client.volumes(filters=self._filters)["Volumes"] or []:
            with allow_absence():
                self.client.remove_volume(volume["Name"], force=True)


def find_name(container: Mapping[str, Any]) -> str:
    """Return the name of a container from its description in a list.

    A container that the engine failed to remove may have no name left. Then return its id.
    """
    name: str = next(iter(container["Names"]), container["Id"])
    return name.removeprefix("/")


def ask_for_each(containers: Iterable[T], ask: Callable[[T], None]) -> None:
    """Call `ask` with each container, up to `_AT_ONCE` at the same time. Raises the first error."""
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        list(pool.map(ask, containers))


def fill(text: str, host: str) -> str:
    """Return `text` with `{node}` replaced by the node's directory in its container, and `{host}` by its host name."""
    return text.replace("{node}", HOME).replace("{host}", host)


def _find_owner(image: Mapping[str, Any]) -> int:
    """Return the id of the image's user, who must own the container's files; 0 (root) if the image gives no number."""
    user = (image["Config"].get("User") or "0").split(":")[0]
    return int(user) if user.isdigit() else 0


def is_there() -> bool:
    """Return whether a request can go to an engine: `DOCKER_HOST` is set, or this user may open Docker's socket."""
    return "DOCKER_HOST" in os.environ or os.access(SOCKET, os.R_OK | os.W_OK)


def _name_slots() -> str:
    return str(from_environment().leases)


def list_running_nodes(containers: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the sorted names of the nodes whose containers run or are frozen."""
    return sorted(one["Labels"][NODE] for one in containers if one["State"] in RUNNING and NODE in one["Labels"])


def remove_container(client: docker.APIClient, container: str) -> None:
    """End and remove a container; its named volumes stay."""
    with allow_absence():
        client.remove_container(container, force=True)


def list_runs_in_engine() -> list[str]:
    """Return the `nodes` directory of every run that used this user's slots and still has objects in the engine."""
    client, filters = find_engine(), {"label": [f"{SLOTS}={_name_slots()}", RUN]}
    held = [
        *client.containers(all=True, filters=filters),
        *client.networks(filters=filters),
        *(client.volumes(filters=filters)["Volumes"] or []),
    ]
    return sorted({one["Labels"][RUN] for one in held})


def provide_image(client: docker.APIClient, image: str, *, is_ours: bool = False) -> Mapping[str, Any]:
    """Return the engine's description of an image. A missing image is fetched, unless it is built here (`is_ours`).

    Raises MachineError if the image is missing and cannot be fetched.
    """
    try:
        return client.inspect_image(image)
    except ImageNotFound:
        if is_ours:
            raise MachineError(
                f"the image {image} is not here: build it with `make image`, or name another one in BROKERPROOF_IMAGE"
            ) from None
    log.info("fetching the image %s, once", image)
    try:
        client.pull(*image.rsplit(":", 1))
        return client.inspect_image(image)
    except (DockerException, requests.RequestException) as error:
        raise MachineError(
            f"the image {image} is not here and cannot be fetched: {error}; connect to the network once, load the "
            "image with `docker load`, or name a registry that has it in BROKERPROOF_REGISTRY"
        ) from error


def pack(directory: str, owner: int, folders: Sequence[str], files: Mapping[str, str]) -> bytes:
    """Return a tar archive for `put_archive` at `/`: a directory with folders and text files, all with the same owner.

    `files` is {path below the directory: content}, `owner` a user id.
    """
    buffer = io.BytesIO()
    made: set[str] = set()
    with tarfile.open(fileobj=buffer, mode="w") as tar:

        def add(path: str, content: bytes | None) -> None:
            entry = tarfile.TarInfo(path)
            entry.uid = owner
            entry.type, entry.mode = (tarfile.DIRTYPE, 0o755) if content is None else (tarfile.REGTYPE, 0o644)
            entry.size = len(content or b"")
            tar.addfile(entry, io.BytesIO(content or b""))

        def add_folders(path: Path) -> None:
            for folder in (*reversed(path.parents), path):
                if (name := str(folder).lstrip("/")) not in (*made, "", "."):
                    made.add(name)
                    add(name, None)

        root = Path(directory)
        for folder in ("", *folders):
            add_folders(root / folder)
        for name, content in files.items():
            add_folders((root / name).parent)
            add(str(root / name).lstrip("/"), content.encode())
    return buffer.getvalue()


def read_text_file(client: docker.APIClient, container: str, path: str) -> str:
    """Return the content of a file in a container, which need not run. Raises NodeError if the file is missing."""
    with translate_engine_errors(f"{path} cannot be read"):
        blocks, _ = client.get_archive(container, path)
        with tarfile.open(fileobj=io.BytesIO(b"".join(blocks))) as tar:
            member = tar.extractfile(tar.next() or tarfile.TarInfo())
            return "" if member is None else member.read().decode()


def is_empty(client: docker.APIClient, container: str, directory: str) -> bool:
    """Return whether a directory in a container is empty. The container need not run.

    Only the start of an archive of the directory is fetched.
    """
    blocks, _ = client.get_archive(container, directory)
    # The archive's first 512 bytes are the directory's own entry. Two blocks of zeros end the archive.
    head = b"".join(islice(blocks, 4))
    blocks.close()
    return head[512:1024].strip(b"\0") == b""


@contextmanager
def allow_absence() -> Iterator[None]:
    """Ignore the engine's errors in the block about an object that is gone or is being removed."""
    try:
        yield
    except NotFound:
        pass
    except APIError as error:
        if not any(words in str(error.explanation) for words in _GOES):
            raise
