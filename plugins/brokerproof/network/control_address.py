"""The control socket at which a link process gets requests: a path on this machine, or an address with a secret.

On this machine, it is a unix socket, which only the user who started the link process may open. In a container, it is
an address that other programs can reach too. So each request to this address must contain a secret, which only the run
and the link process know.
"""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
from pathlib import Path

from brokerproof.errors import MachineError
from brokerproof.experiment.yaml_models import FrozenModel

# Linux allows 108 bytes for the path of a unix socket, including a zero byte at its end.
_LONGEST_PATH = 107


class PathOfControl(FrozenModel):
    """A control socket on this machine: the path of a unix socket."""

    path: str

    def connect(self, timeout_s: float) -> socket.socket:
        """Return a connected socket. Raises OSError if no process listens at the path."""
        peer = socket.socket(socket.AF_UNIX)
        try:
            peer.settimeout(timeout_s)
            peer.connect(self.path)
        except OSError:
            peer.close()
            raise
        return peer

    def listen(self) -> socket.socket:
        """Return a new socket bound to the path, in place of any older one. Raises OSError if that fails."""
        Path(self.path).unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(self.path)
        Path(self.path).chmod(0o600)
        return listening

    @property
    def secret(self) -> str:
        """An empty string, because only this user may open the socket."""
        return ""


class AddressOfControl(FrozenModel):
    """A control socket in a container: an address and port, and the secret that each request must contain."""

    host: str
    port: int
    secret: str

    def connect(self, timeout_s: float) -> socket.socket:
        """Return a connected socket. Raises OSError if no process accepts the connection."""
        return socket.create_connection((self.host, self.port), timeout=timeout_s)

    def listen(self) -> socket.socket:
        """Return a listening socket. Raises OSError if the address or port cannot be used."""
        return socket.create_server((self.host, self.port))


def choose_path(directory: Path) -> PathOfControl:
    """Return a path for the control socket of the link process whose directory is `directory`.

    The path is in that directory. If it would be too long for a unix socket, it is in a private directory of this user
    below the system's temporary directory. Raises MachineError if neither path can be used.
    """
    path = directory / "control.sock"
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        return PathOfControl(path=str(path))
    short = Path(tempfile.gettempdir()) / f"brokerproof-link-{os.getuid()}"
    short.mkdir(mode=0o700, exist_ok=True)
    status = short.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise MachineError(f"{short} is not this user's alone; remove it, or set TMPDIR to a directory of your own")
    path = short / f"{hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]}.sock"
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise MachineError(f"{path} is too long for a unix socket; set TMPDIR to a shorter directory")
    return PathOfControl(path=str(path))
