"""What becomes of a test for which this machine lacks a part."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def leave_out(reason: str) -> NoReturn:
    """Skip the test; where BROKERPROOF_ENGINE is set, as in CI, nothing is a reason to do so, and it fails."""
    if os.environ.get("BROKERPROOF_ENGINE"):
        pytest.fail(reason)
    pytest.skip(reason)
