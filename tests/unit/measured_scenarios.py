"""The scenarios whose figures docs/scenarios.md shows. A scenario file that was just added is none of them."""

from __future__ import annotations

import re
from pathlib import Path

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "scenarios.md"


def list_measured_scenarios() -> list[str]:
    """Their names, in the order of the table."""
    table = _PAGE.read_text(encoding="utf-8").split("<!-- figures: scenarios -->")[1].split("\n\n")[0]
    return re.findall(r"^\| `(\w+)`", table, re.M)
