"""The password and the secret keys of the embedded Airflow, in files that only their owner may read."""

from __future__ import annotations

import base64
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

USER = "admin"


class AirflowCredentials:
    """The credentials in Airflow's directory `home`. They stay the same from one start to the next."""

    def __init__(self, home: Path) -> None:
        self.password_file = home / "passwords.json"
        self._keys_file = home / "secrets.json"

    def make_missing(self) -> None:
        """Make the password and the keys, where an earlier start has not made them."""
        if not self.password_file.exists():
            write_private_file(self.password_file, json.dumps({USER: secrets.token_urlsafe(18)}))
        if not self._keys_file.exists():
            keys = {
                "fernet_key": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
                "secret_key": secrets.token_urlsafe(32),
                "jwt_secret": secrets.token_urlsafe(64),
            }
            write_private_file(self._keys_file, json.dumps(keys))

    def read_password(self) -> str:
        """The password of the user `admin`."""
        return str(json.loads(self.password_file.read_text())[USER])

    def read_keys(self) -> Mapping[str, str]:
        """The keys `fernet_key`, `secret_key` and `jwt_secret`."""
        return dict(json.loads(self._keys_file.read_text()))


def write_private_file(path: Path, text: str) -> None:
    """Write a file that only its owner may read; a reader sees the whole text or no file."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    temporary.replace(path)
