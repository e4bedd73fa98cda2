"""Writes the five suites' files in expectations/ from the tables of anomalies and metrics: `make docs`."""

from __future__ import annotations

import json
import sys

from brokerproof.experiment.guarantees import Suite
from brokerproof.settings import from_environment
from brokerproof.suites.suite_file import make_suite


def write_suites() -> dict[str, str]:
    """Return the text of each suite's file by file name."""
    return {f"{suite}.json": json.dumps(make_suite(suite), indent=2, ensure_ascii=False) + "\n" for suite in Suite}


def main() -> int:
    directory = from_environment().home / "expectations"
    for name, text in write_suites().items():
        (directory / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
