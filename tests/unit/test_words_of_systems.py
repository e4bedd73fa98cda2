"""Nothing outside a system's own package speaks of what only that system has.

Names that stay, because users, stored runs and topologies know them, stand here with the files that may hold them. A
word is added to this list only for such a reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import ROOT

_CORE = (("plugins", "py"), ("spark_jobs", "py"), ("spark_jobs", "sql"), ("dags", "py"), ("expectations", "json"))
# Brokerproof itself and `argparse.Namespace` are other words.
_WORDS = re.compile(
    r"\b(?<!argparse\.)\w*(?:pulsar|bookkeeper|bookie|ledger|zookeeper|\bzk\b|persistent://"
    r"|broker(?!proof)|metadata[ _]?store|namespace)\w*",
    re.IGNORECASE,
)


_IN_FILE = {
    # What topologies and scenarios say since before there were other systems.
    "plugins/brokerproof/experiment/topology.py": {"pulsar"},
    "plugins/brokerproof/systems/registry.py": {"pulsar", "PULSAR"},
    "plugins/brokerproof/experiment/workload.py": {"namespace"},
}


def find_words(text: str) -> list[str]:
    return _WORDS.findall(text)


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
        for word in find_words(line)
        if word not in _IN_FILE.get(str(file.relative_to(ROOT)), set())
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    ["a broker's cache", "name_brokers_place", "its metadata store", "MetadataStore", "the namespaces", "bookies"],
)
def test_words_of_one_system_are_found(text: str) -> None:
    assert len(find_words(text)) == 1


def test_other_words_are_not_found() -> None:
    assert not find_words("class BrokerproofError: brokerproof_judging, BROKERPROOF_VAR, argparse.Namespace")


def test_every_exception_is_still_needed() -> None:
    unused = [
        f"{name}: {word}"
        for name, words in _IN_FILE.items()
        for word in words
        if not re.search(rf"\b{word}\b", (ROOT / name).read_text(encoding="utf-8"))
    ]
    assert not unused, "\n".join(unused)
