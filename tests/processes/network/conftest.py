"""The lab that the tests of the link share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .lab import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    yield lab
    lab.close()
