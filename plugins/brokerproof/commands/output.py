"""The commands' output: results on stdout; progress and errors on stderr, so that stdout can be piped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console

from brokerproof.machine.files import write_whole


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, default=str))


def print_warning(message: str) -> None:
    text = f"warning: {message}"
    Console(stderr=True).print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)


def print_error(message: str) -> None:
    Console(stderr=True).print(message, style="red", markup=False, highlight=False, soft_wrap=True)


def deliver_text(text: str, name: str, output: str | None, *, as_json: bool) -> None:
    """Write a text into the file `output`, whole or not at all, and print the path. Without `output`, print the text.

    With `as_json`, the printed text is always `{"output": path or null, NAME: text}`.
    """
    if output:
        write_whole(Path(output), text)
    if as_json:
        print_json({"output": output, name: text})
    else:
        print(output or text, end="\n" if output else "")
