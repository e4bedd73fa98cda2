"""Ports of 127.0.0.1: a port is reserved for a server until the server ends, and its listener can be found.

A reservation counts for this user's processes only. Another program can take the port before the server listens, so
the starter of a server must look for the port's listener.
"""

from __future__ import annotations

import os
import pwd
import socket
import struct
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from brokerproof.errors import MachineError, shorten
from brokerproof.machine import leases

_HOST = "127.0.0.1"
# The number of ports that the kernel may choose one after the other until one of them can be reserved.
_CHOICES = 20
_LISTENING = "0A"


@dataclass(frozen=True, kw_only=True)
class ReservedPort:
    """A reserved port. A process that inherits `descriptor` keeps the reservation until it ends."""

    number: int
    descriptor: int


@contextmanager
def reserve_port(preferred: int) -> Iterator[ReservedPort]:
    """Reserve a port that no program listens at, for the block and for the processes that inherit its descriptor.

    The port is `preferred` unless that is reserved or in use, or is 0. Then the kernel chooses one.
    """
    directory = leases.find_directory("ports")
    for wanted in (preferred, *[0] * _CHOICES):
        number = _bind(wanted)
        if number is None or (descriptor := leases.lock_file(directory / f"{number}.lock")) is None:
            continue
        try:
            # Its last holder may have begun to listen before this process got the lock.
            if _bind(number) is not None:
                yield ReservedPort(number=number, descriptor=descriptor)
                return
        finally:
            os.close(descriptor)
    raise MachineError(f"no port is free on {_HOST}")


def describe_other_listener(port: int, list_own: Callable[[], Iterable[int]]) -> str | None:
    """Return a description of the process that accepts connections to a port of 127.0.0.1.

    The result is None if there is no such process, or if its id is in `list_own()`.
    """
    found = _find_listening(port)
    if not found:
        return None
    # In this order, because a process of `list_own` may begin or end to listen at this moment.
    own = _list_sockets(list_own())
    others = {inode: user for inode, user in _find_listening(port).items() if inode in found and inode not in own}
    return _describe(others) if others else None


def _bind(number: int) -> int | None:
    """Return the number of a port to which a server can be bound, or None. For 0, the kernel chooses the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            # This also fails if another process listens on 0.0.0.0, because that takes every address.
            probe.bind((_HOST, number))
        except OSError:
            return None
        return int(probe.getsockname()[1])


def _write_as_kernel(address: bytes) -> str:
    """Return an address as /proc/net/tcp writes it: each 32 bits as a number in the machine's byte order."""
    return "".join(f"{word:08X}" for (word,) in struct.iter_unpack("=I", address))


_IPV4, _ANY_IPV4 = socket.inet_aton(_HOST), bytes(4)
# The last one is how Java writes 127.0.0.1 if it uses IPv6.
_ADDRESSES = {_write_as_kernel(each) for each in (_IPV4, _ANY_IPV4, bytes(16), bytes(10) + b"\xff\xff" + _IPV4)}


def _find_listening(port: int) -> dict[str, int]:
    """Return {inode: user id} of the sockets that accept connections to a port of 127.0.0.1, see proc_net(5)."""
    found = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(FileNotFoundError):
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                _, local, _, state, _, _, _, user, _, inode, *_ = line.split()
                address, _, number = local.partition(":")
                if state == _LISTENING and address in _ADDRESSES and int(number, 16) == port:
                    found[inode] = int(user)
    return found


def _list_sockets(pids: Iterable[int]) -> set[str]:
    """Return the inodes of all sockets that the processes have open, as far as this user may see them."""
    found = set()
    for pid in pids:
        with suppress(OSError):
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    kind, _, inode = str(descriptor.readlink()).partition(":")
                    if kind == "socket":
                        found.add(inode.strip("[]"))
    return found


def _describe(others: dict[str, int]) -> str:
    inodes: Collection[str] = others.keys()
    for process in psutil.process_iter():
        if _list_sockets([process.pid]).intersection(inodes):
            with suppress(psutil.Error):
                # Another user may have chosen it, so nothing in it may control the terminal.
                words = "".join(each if each.isprintable() else " " for each in " ".join(process.cmdline())).split()
                command = shorten(" ".join(words))
                return f"process {process.pid} of {process.username()} (`{command}`, started in {process.cwd()})"
    user = next(iter(others.values()))
    with suppress(KeyError):
        return f"a process of the user {pwd.getpwuid(user).pw_name}"
    return f"a process of the user {user}"
