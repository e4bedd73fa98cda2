"""Writes the reference pages of docs/ from the models and tables: `make docs`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from brokerproof.experiment.guarantees import DEFINITIONS, Guarantee
from brokerproof.experiment.metrics import METRICS
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.run.tables import SCHEMAS
from brokerproof.settings import from_environment

_NOTE = "Made from the code by `make docs`; changes belong there.\n"


def pages() -> dict[str, str]:
    """The pages' text by file name."""
    return {
        "scenario-reference.md": _page("Fields of a scenario", _model(Scenario.model_json_schema())),
        "topology-reference.md": _page("Fields of a topology", chain(_extends(), _model(Topology.model_json_schema()))),
        "anomalies.md": _page("Anomalies, and when they are illegal", _anomalies()),
        "measurements.md": _page("What placement and recovery are measured in", _measurements()),
        "faults.md": _page("Kinds of fault", _faults()),
        "tables.md": _page("A run's tables", _tables()),
    }


def _page(title: str, lines: Iterator[str]) -> str:
    return f"# {title}\n\n{_NOTE}\n" + "\n".join(lines) + "\n"


def _extends() -> Iterator[str]:
    yield "A file with `extends: NAME` has all that `topologies/NAME.yaml` has, and states only the difference: its"
    yield "mappings are merged with those of NAME, key by key and at any depth, its lists and plain values replace"
    yield "those of NAME, and `null` takes a key away. `title` and `description` are always the file's own. NAME may"
    yield "extend another topology. A scenario's `overrides` are applied to the result.\n"
    yield "`settings: {extends: NAME}`, in a topology or in a scenario, does the same with the file"
    yield "`topologies/settings/NAME.yaml`.\n"


def _model(schema: Mapping[str, Any]) -> Iterator[str]:
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    for name, model in {schema["title"]: schema, **definitions}.items():
        if "properties" not in model:
            continue
        yield f"## {name}\n"
        yield f"{model.get('description', '').strip().splitlines()[0]}\n"
        yield "| field | type | default | meaning |"
        yield "|---|---|---|---|"
        for field, content in model["properties"].items():
            required = field in model.get("required", [])
            default = "required" if required else f"`{content['default']}`" if "default" in content else ""
            yield f"| `{field}` | {_type(content, definitions)} | {default} | {content.get('description', '')} |"
        yield ""


def _type(content: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    if "$ref" in content:
        name = content["$ref"].rsplit("/", 1)[1]
        values = definitions.get(name, {}).get("enum")
        return ", ".join(f"`{value}`" for value in values) if values else f"[{name}](#{name.lower()})"
    if "anyOf" in content:
        return " or ".join(_type(one, definitions) for one in content["anyOf"] if one.get("type") != "null")
    if content.get("type") == "array":
        return f"list of {_type(content.get('items', {}), definitions)}"
    if content.get("type") == "object":
        inner = content.get("additionalProperties")
        return f"map of {_type(inner, definitions)}" if isinstance(inner, Mapping) else "map"
    if "enum" in content:
        return ", ".join(f"`{value}`" for value in content["enum"])
    return str(content.get("type", "any"))


def _anomalies() -> Iterator[str]:
    yield "A message counts as acked if any of its attempts was, as failed if all were, else as unknown. A scenario may"
    yield "`tighten` or `loosen` the table by name. `unproven` makes the verdict `unknown`.\n"
    yield "| suite | anomaly | message … | illegal under |"
    yield "|---|---|---|---|"
    for anomaly, definition in DEFINITIONS.items():
        illegal = ", ".join(f"`{one}`" for one in Guarantee if one in definition.illegal_under) or "none"
        order = ", not for Shared" if definition.needs_order else ""
        yield f"| {definition.suite} | `{anomaly}` | {definition.meaning} | {illegal}{order} |"


def _measurements() -> Iterator[str]:
    yield "A scenario bounds them under `bounds`, by name or by `name/subject`.\n"
    yield "| suite | metric | unit | one per | meaning |"
    yield "|---|---|---|---|---|"
    for name, metric in METRICS.items():
        yield f"| {metric.suite} | `{name}` | {metric.unit} | {metric.subject} | {metric.meaning} |"


def _faults() -> Iterator[str]:
    yield "| kind | what it does |"
    yield "|---|---|"
    for name, kind in FAULT_KINDS.items():
        yield f"| `{name}` | {(type(kind).__doc__ or '').strip().splitlines()[0]} |"


def _tables() -> Iterator[str]:
    yield "Parquet under `tables/` of a run's directory. Times are UTC timestamps in microseconds.\n"
    for name, schema in SCHEMAS.items():
        yield f"## {name}\n"
        yield "| column | type |"
        yield "|---|---|"
        for field in schema:
            yield f"| `{field.name}` | {field.type} |"
        yield ""


def main() -> int:
    """Write the pages; with `--check` only say which are not as the code makes them."""
    docs = from_environment().home / "docs"
    stale = [name for name, text in pages().items() if not _same(docs / name, text)]
    if "--check" in sys.argv:
        for name in stale:
            print(f"docs/{name} is not as the code makes it; run `make docs`", file=sys.stderr)
        return 1 if stale else 0
    for name, text in pages().items():
        (docs / name).write_text(text, encoding="utf-8")
    return 0


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
