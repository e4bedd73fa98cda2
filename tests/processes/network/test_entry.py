"""Whoever uses the emulated network imports it from the package, so that its modules can change without its users."""

from __future__ import annotations

import re

import brokerproof.network
from builders import ROOT

INSIDE = (ROOT / "plugins/brokerproof/network", ROOT / "tests/processes/network")


def test_nobody_outside_imports_a_module_of_the_network() -> None:
    """The import linter sees the product only; this sees tests, benchmarks, DAG files and tools too."""
    folders = ("plugins", "spark_jobs", "dags", "tests", "tools")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    outside = [file for file in files if not any(file.is_relative_to(folder) for folder in INSIDE)]
    importers = [file for file in outside if re.search(r"\bbrokerproof\.network\.\w+ import\b", file.read_text())]
    assert len(outside) > 100
    assert importers == []


def test_the_package_exports_what_it_names() -> None:
    for name in brokerproof.network.__all__:
        assert getattr(brokerproof.network, name) is not None
