"""A run's directory: what was asked for, what happened, and who holds it.

    run.json               id, scenario, topology, versions, parameters, address range; written once by `reserve`
    state/<step>.json      what a step left for the others (written whole, then renamed)
    tables/<table>/        Parquet, see tables.py
    progress/              counters that jobs rewrite while they work; read by the progress display, proof of nothing
    nodes/<node>/          pid file, configuration and log of a node of the process runtime; its data until `release`
    monitor.json           the process that watches over the run and holds its slot
    logs/, report/         logs of jobs and of the monitor, Data Docs and the like

The directory may be any fsspec location; nodes always live on the local disk.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from brokerproof import clock
from brokerproof.errors import RunError
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.yaml_models import parse
from brokerproof.machine.files import whole_object
from brokerproof.run.tables import SCHEMAS


@dataclass(frozen=True)
class Run:
    """One run, by the location of its directory."""

    directory: str

    @classmethod
    def create(cls, directory: str, *, run_id: str, scenario: Scenario, topology: Topology, **facts: Any) -> Run:
        """Make the directory and write run.json. Raises RunError where a run is there already."""
        run = cls(directory.rstrip("/"))
        if run.exists("run.json"):
            raise RunError(f"{directory} holds a run already; choose another run id")
        run.write_json(
            "run.json",
            {
                "run_id": run_id,
                "created_at": clock.utc(clock.now_us()).isoformat(),
                "scenario": scenario.model_dump(mode="json"),
                "topology": topology.model_dump(mode="json"),
                # All processes of a run on this machine read one clock.
                "clock_error_us": 0,
                **facts,
            },
        )
        return run

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """The content of run.json. Raises RunError where there is none."""
        return self.read_json("run.json")

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.facts["run_id"])

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario as it was in force."""
        return parse(Scenario, self.facts["scenario"], file=self.path("run.json"))

    @cached_property
    def topology(self) -> Topology:
        """The topology as it was in force."""
        return parse(Topology, self.facts["topology"], file=self.path("run.json"))

    def path(self, *parts: str) -> str:
        """Location of something in the directory."""
        return "/".join([self.directory, *parts])

    def table(self, name: str) -> str:
        """Location of a table. Raises KeyError for a name that tables.py does not know."""
        if name not in SCHEMAS:
            raise KeyError(name)
        return self.path("tables", name)

    def exists(self, *parts: str) -> bool:
        """Whether something is there."""
        filesystem, root = fsspec.url_to_fs(self.path(*parts))
        return bool(filesystem.exists(root))

    def read_json(self, *parts: str) -> Any:
        """The content of a JSON file. Raises RunError where it is missing or damaged."""
        try:
            with fsspec.open(self.path(*parts), "r") as file:
                return json.load(file)
        except FileNotFoundError:
            raise RunError(
                f"{self.path(*parts)} is missing; is {self.directory} a run, and did that step run?"
            ) from None
        except json.JSONDecodeError as error:
            raise RunError(f"{self.path(*parts)} is damaged: {error}") from None

    def read_text(self, *parts: str) -> str:
        """The content of a file. Raises FileNotFoundError where there is none."""
        with fsspec.open(self.path(*parts), "r", encoding="utf-8") as file:
            return str(file.read())

    def write_json(self, name: str, content: Any) -> None:
        """Write a JSON file so that a reader never sees half of it."""
        with whole_object(self.path(name), "w") as file:
            json.dump(content, file, indent=1, default=str)

    def write_text(self, name: str, content: str) -> None:
        """Write a file for people to look at, whole or not at all."""
        with whole_object(self.path(name), "w") as file:
            file.write(content)

    def state(self, step: str) -> Any | None:
        """What a step left, None where it has not."""
        return self.read_json("state", f"{step}.json") if self.exists("state", f"{step}.json") else None

    def leave_state(self, step: str, content: Any) -> None:
        """Leave something for other steps."""
        self.write_json(f"state/{step}.json", content)

    def append(self, table: str, rows: list[dict[str, Any]]) -> None:
        """Add rows to a table as one Parquet file; columns left out are null. Times may be microseconds."""
        if not rows:
            return
        schema = SCHEMAS[table]
        columns = [pa.array([row.get(field.name) for row in rows], type=field.type) for field in schema]
        with whole_object(self.path("tables", table, f"part-{clock.now_us()}.parquet"), "wb") as file:
            pq.write_table(pa.Table.from_arrays(columns, schema=schema), file)
