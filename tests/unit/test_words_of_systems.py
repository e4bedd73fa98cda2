"""Nothing outside a system's own package speaks of what only that system has.

Names that stay, because users, stored runs and topologies know them, stand here with the files that may hold them. A
word is added to this list only for such a reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from builders import ROOT

_CORE = (("plugins", "py"), ("spark_jobs", "py"), ("spark_jobs", "sql"), ("dags", "py"), ("expectations", "json"))
_WORDS = re.compile(r"\w*(?:pulsar|bookkeeper|bookie|ledger|zookeeper|\bzk\b|persistent://)\w*", re.IGNORECASE)

# The table of copies, a column of a position, and two metrics.
_ANYWHERE = re.compile(r"ledgers|(\w+_)?ledger_id|ledgers_not_spanning|under_replicated_ledgers")
_IN_FILE = {
    # The columns of the table of copies.
    "plugins/brokerproof/run/tables.py": {"LEDGERS", "bookies"},
    "plugins/brokerproof/faults/copies.py": {"bookies"},
    "plugins/brokerproof/reports/run_report.py": {"bookies"},
    # What topologies and scenarios say since before there were other systems.
    "plugins/brokerproof/experiment/topology.py": {"pulsar"},
    "plugins/brokerproof/systems/registry.py": {"pulsar", "PULSAR"},
}


def core_files() -> Iterator[Path]:
    for folder, suffix in _CORE:
        for file in (ROOT / folder).rglob(f"*.{suffix}"):
            if ROOT / "plugins/brokerproof/systems/pulsar" not in file.parents:
                yield file


def test_the_core_speaks_of_no_messaging_system() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}: {word}"
        for file in core_files()
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        for word in _WORDS.findall(line)
        if not _ANYWHERE.fullmatch(word) and word not in _IN_FILE.get(str(file.relative_to(ROOT)), set())
    ]
    assert not found, "\n".join(found)


def test_every_exception_is_still_needed() -> None:
    unused = [
        f"{name}: {word}"
        for name, words in _IN_FILE.items()
        for word in words
        if not re.search(rf"\b{word}\b", (ROOT / name).read_text(encoding="utf-8"))
    ]
    assert not unused, "\n".join(unused)
