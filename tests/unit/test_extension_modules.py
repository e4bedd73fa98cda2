"""What Brokerproof's own systems, runtimes and faults import is what docs/ARCHITECTURE.md offers to everybody's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "plugins" / "brokerproof"
OFFERED = {
    row[1]: re.findall(r"`([a-z._]+)`", row[2])
    for row in re.finditer(
        r"^\| (each|a system|a runtime|a kind of fault) \| (`.*) \|$",
        (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("an extension may import")[2],
        re.MULTILINE,
    )
}


def list_imports(files: Iterable[Path]) -> set[str]:
    """The modules of `brokerproof` that the files import, without the package's name."""
    imports: set[str] = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "brokerproof":
                names = [f"{node.module}.{one.name}" for one in node.names]
                exist = [name for name in names if (PACKAGE.parent / f"{name.replace('.', '/')}.py").exists()]
                imports.update(exist or [str(node.module)])
    return {name.removeprefix("brokerproof.") for name in imports}


def list_refused(imports: Iterable[str], extension: str, own: Iterable[str] = ()) -> list[str]:
    allowed = [*OFFERED["each"], *OFFERED[extension], *own]
    return sorted(name for name in imports if not any(f"{name}.".startswith(f"{each}.") for each in allowed))


@pytest.mark.parametrize(
    ("extension", "files", "own"),
    [
        ("a system", list((ROOT / "tests/systems/testlog_system").glob("*.py")), []),
        ("a system", list((PACKAGE / "systems/pulsar").glob("*.py")), ["systems.pulsar"]),
        ("a runtime", [PACKAGE / "runtimes/process_runtime.py"], []),
        (
            "a runtime",
            [PACKAGE / "runtimes/container_runtime.py"],
            ["runtimes.engine", "runtimes.gateway"],
        ),
        ("a kind of fault", list((PACKAGE / "faults").glob("on_*.py")), []),
    ],
    ids=["testlog", "pulsar", "processes", "containers", "faults"],
)
def test_an_extension_imports_only_modules_that_are_offered(extension: str, files: list[Path], own: list[str]) -> None:
    imports = list_imports(files)
    assert imports
    assert list_refused(imports, extension, own) == []


def test_a_module_that_is_not_offered_is_found(tmp_path: Path) -> None:
    file = tmp_path / "system.py"
    file.write_text("from brokerproof import lifecycle\nfrom brokerproof.errors import InputError\n")
    assert list_refused(list_imports([file]), "a system") == ["lifecycle"]


def test_every_module_that_is_offered_exists() -> None:
    offered = [module for modules in OFFERED.values() for module in modules]
    assert len(OFFERED) == 4
    missing = [
        name
        for name in offered
        if not (PACKAGE / name.replace(".", "/")).is_dir() and not (PACKAGE / f"{name.replace('.', '/')}.py").exists()
    ]
    assert missing == []
