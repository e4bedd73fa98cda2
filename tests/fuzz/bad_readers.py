"""Readers that do what no reader may do, for the tests of the harness. Each reads the sound file `b"sound"` well."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from brokerproof.errors import RunError
from reading_child import Read, Use


def _make(misbehave: Callable[[], object]) -> Read:
    @contextmanager
    def read(name: str, content: bytes) -> Iterator[list[Use]]:
        yield [lambda: None if content == b"sound" else misbehave()]

    return read


def crash(directory: Path) -> Read:
    return _make(os.abort)


def hang(directory: Path) -> Read:
    return _make(lambda: time.sleep(600))


def waste_time(directory: Path) -> Read:
    def count() -> None:
        end = time.process_time() + 2.2
        while time.process_time() < end:
            pass

    return _make(count)


def waste_memory(directory: Path) -> Read:
    return _make(lambda: bytearray(b"x") * (250 << 20))


def waste_more_memory_than_allowed(directory: Path) -> Read:
    return _make(lambda: bytearray(b"x") * (4 << 30))


def raise_unexpected(directory: Path) -> Read:
    names: dict[str, str] = {}
    return _make(lambda: names["absent"])


def refuse(directory: Path) -> Read:
    def raise_error() -> None:
        raise RunError("the file is damaged")

    return _make(raise_error)
