"""The password and the secret keys of the embedded Airflow, in files that only their owner may read."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping
from pathlib import Path

from brokerproof.machine.files import PRIVATE, write_whole

USER = "admin"


class AirflowCredentials:
    """The credentials in Airflow's directory `home`. They stay the same from one start to the next."""

    def __init__(self, home: Path) -> None:
        self.password_file = home / "passwords.json"
        self._keys_file = home / "secrets.json"

    def make_missing(self) -> None:
        """Make the password and the keys unless an earlier start made them."""
        if not self.password_file.exists():
            write_whole(self.password_file, json.dumps({USER: secrets.token_urlsafe(18)}), permissions=PRIVATE)
        if not self._keys_file.exists():
            keys = {
                "fernet_key": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
                "secret_key": secrets.token_urlsafe(32),
                "jwt_secret": secrets.token_urlsafe(64),
            }
            write_whole(self._keys_file, json.dumps(keys), permissions=PRIVATE)

    def read_password(self) -> str:
        """Return the password of the user `admin`."""
        return str(json.loads(self.password_file.read_text())[USER])

    def read_keys(self) -> Mapping[str, str]:
        """Return the keys `fernet_key`, `secret_key` and `jwt_secret`."""
        return dict(json.loads(self._keys_file.read_text()))
