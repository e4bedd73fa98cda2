"""Results go to stdout. Progress and errors go to stderr, so that stdout can be piped."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console


def print_json(value: Any) -> None:
    """Print a value as JSON on stdout."""
    print(json.dumps(value, indent=1, default=str))


def print_error(message: str) -> None:
    """Print a message in red on stderr."""
    Console(stderr=True).print(message, style="red", markup=False, highlight=False, soft_wrap=True)
