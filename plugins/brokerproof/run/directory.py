"""A run's directory: what was asked for, what happened, and who holds it.

    run.json               id, scenario, topology, versions, parameters, address range; written once by `reserve`
    state/<step>.json      what a step left for the others (written whole, then renamed)
    tables/<table>/        Parquet, see tables.py
    progress/              counters that jobs rewrite while they work; read by the progress display, proof of nothing
    nodes/<node>/          pid file, configuration and log of a node of the process runtime; its data until `release`
    logs/, report/         logs of jobs, Data Docs and the like

The directory may be any fsspec location; nodes always live on the local disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from brokerproof import clock
from brokerproof.errors import MachineError, RunError
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.yaml_models import parse
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
        with self._whole(f"{name}.{clock.now_us()}.tmp", name, "w") as file:
            json.dump(content, file, indent=1, default=str)

    def write_text(self, name: str, content: str) -> None:
        """Write a file for people to look at, whole or not at all."""
        with self._whole(f"{name}.{clock.now_us()}.tmp", name, "w") as file:
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
        name = f"part-{clock.now_us()}.parquet"
        # A name that starts with a dot is invisible to Spark until it is whole.
        with self._whole(f"tables/{table}/.{name}", f"tables/{table}/{name}", "wb") as file:
            pq.write_table(pa.Table.from_arrays(columns, schema=schema), file)

    @contextmanager
    def _whole(self, temporary: str, name: str, mode: str) -> Iterator[IO[Any]]:
        """A file that gets its name when it is whole. Raises MachineError where it cannot be written."""
        filesystem, root = fsspec.url_to_fs(self.directory)
        try:
            filesystem.makedirs(f"{root}/{name}".rpartition("/")[0], exist_ok=True)
            with filesystem.open(f"{root}/{temporary}", mode) as file:
                yield file
            filesystem.mv(f"{root}/{temporary}", f"{root}/{name}")
        except OSError as error:
            with suppress(OSError):
                filesystem.rm(f"{root}/{temporary}")
            reason = error.strerror or str(error)
            raise MachineError(
                f"{self.path(name)} cannot be written: {reason}; make room, or let the directory be written to"
            ) from error
