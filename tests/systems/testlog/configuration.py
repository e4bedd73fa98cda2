"""The configuration file of a node's program, in JSON.

```json
{"name": "n1", "address": "127.88.1.1", "port": 7400, "data": "/somewhere/data",
 "peers": {"n1": "127.88.1.1:7400", "n2": "127.88.1.2:7400", "n3": "127.88.1.3:7400"},
 "misbehaviour": null, "misbehaviour_every": 100}
```
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from testlog.misbehaviour import Misbehaviour

Address = tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class ServerConfiguration:
    """One node's configuration. `peers` holds the addresses of the other nodes."""

    name: str
    address: str
    port: int
    data: Path
    peers: dict[str, Address]
    misbehaviour: Misbehaviour | None
    misbehaviour_every: int

    @classmethod
    def load(cls, file: Path) -> ServerConfiguration:
        """Read the file. Raises ValueError or KeyError if it is no configuration."""
        values = json.loads(file.read_text(encoding="utf-8"))
        misbehaviour = values.get("misbehaviour")
        return cls(
            name=values["name"],
            address=values["address"],
            port=int(values["port"]),
            data=Path(values["data"]),
            peers={name: parse_address(text) for name, text in values["peers"].items() if name != values["name"]},
            misbehaviour=None if misbehaviour is None else Misbehaviour(misbehaviour),
            misbehaviour_every=int(values.get("misbehaviour_every", 100)),
        )


def parse_address(text: str) -> Address:
    """Return (host, port) of the text `host:port`."""
    host, _, port = text.rpartition(":")
    return host, int(port)
