"""Where the control socket of a link process is: a path on this machine, or an address with a secret.

A process of this machine has a unix socket, which only its user may open. One in a container is asked at an address
that others reach too, so that every request has to hold the secret that the two of them share.
"""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
from pathlib import Path

from brokerproof.errors import MachineError
from brokerproof.experiment.yaml_models import FrozenModel

# sun_path holds 108 bytes on Linux, the last of them a zero.
_LONGEST_PATH = 107


class PathOfControl(FrozenModel):
    """A unix socket."""

    path: str

    def connect(self, timeout_s: float) -> socket.socket:
        """Raises OSError."""
        peer = socket.socket(socket.AF_UNIX)
        try:
            peer.settimeout(timeout_s)
            peer.connect(self.path)
        except OSError:
            peer.close()
            raise
        return peer

    def listen(self) -> socket.socket:
        """Raises OSError."""
        Path(self.path).unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(self.path)
        Path(self.path).chmod(0o600)
        return listening

    @property
    def secret(self) -> str:
        """None: whoever may open the socket is trusted."""
        return ""


class AddressOfControl(FrozenModel):
    """An address and a port."""

    host: str
    port: int
    secret: str

    def connect(self, timeout_s: float) -> socket.socket:
        """Raises OSError."""
        return socket.create_connection((self.host, self.port), timeout=timeout_s)

    def listen(self) -> socket.socket:
        """Raises OSError."""
        return socket.create_server((self.host, self.port))


def choose_path(directory: Path) -> PathOfControl:
    """The control socket of the link process whose directory is given.

    It is in the directory itself. Where that path is too long for a unix socket, it is in a directory of this user,
    below the temporary one, under a name made from the path. Raises MachineError where neither can be used.
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
