"""What all tests share."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Directories whose tests start something large; each is a marker too (pyproject.toml says what it starts).
LARGE = ("cluster", "containers", "e2e", "platform", "postgresql")

# A shell that starts the tests in the background has them ignore Ctrl-C, and Brokerproof leaves that as it is. The
# tests of Ctrl-C would then wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        directory = item.path.relative_to(HERE).parts[0]
        if directory in LARGE:
            item.add_marker(directory)
