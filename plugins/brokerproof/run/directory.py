"""A run's directory, which holds everything about the run. Steps are tasks of the run's DAG.

    run.json               the facts known before the run begins; written once by the step `reserve`
    state/                 the records that steps leave for each other, see records.py
    tables/<table>/        Parquet, see tables.py
    progress/              counters that steps and clients rewrite while they work, for people, see live_status.py
    nodes/<node>/          pid file, configuration and log of a node that is a process; its data until `release`
    nodes/restarts.jsonl   the ends and restarts of nodes that service managers recorded, see runtimes/restarts.py
    monitor.json           the process that watches over the run and holds its slot of the machine
    logs/                  logs of jobs and of the monitor
    report/                report.html, and Data Docs: the pages of Great Expectations

The directory may be at any fsspec location; nodes always live on the local disk. It may be reached through a symbolic
link, but a link inside of it is refused, because a run from elsewhere could lead a reader or a writer out of the run.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem
from fsspec.registry import known_implementations
from pydantic import AwareDatetime, Field

from brokerproof import clock
from brokerproof.bounded_reading import MOST_JSON_BYTES, ContentError, check_regular, read_text
from brokerproof.errors import InputError, MachineError, RunError
from brokerproof.experiment.scenario import Scenario
from brokerproof.experiment.topology import Topology
from brokerproof.experiment.yaml_models import parse
from brokerproof.machine.files import find_link, stage_object
from brokerproof.run.strict_model import StrictModel, load_object, parse_strictly
from brokerproof.run.tables import SCHEMAS

# Other processes write into the directory too. A client of an object store would not see their files if it listed the
# directory before, because it remembers lists for good.
for _protocol in known_implementations:
    fsspec.config.conf.setdefault(_protocol, {}).setdefault("use_listings_cache", False)


class TimeAxis(StrictModel):
    """How a run measures time: CLOCK_MONOTONIC of one boot of Linux, plus an offset to the time since the epoch."""

    boot_id: str = Field(description="the boot, as Linux names it")
    offset_us: int = Field(description="microseconds from CLOCK_MONOTONIC to the time since the epoch")


class RunFacts(StrictModel):
    """The run's id, its scenario and topology, and its slot and addresses. `triggered_at` is in microseconds."""

    version: Literal[1] = 1
    # The id is a directory's name, and a part of addresses, of other files' names and of headers.
    run_id: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=500)
    created_at: AwareDatetime
    triggered_at: int | None = Field(
        None, ge=clock.FIRST_US, le=clock.LAST_US, description="when the run was requested; null if this is unknown"
    )
    triggered_by: str | None = Field(
        None, description="the user who requested the run, or `schedule`; null if this is unknown"
    )
    scenario: dict[str, Any] = Field(description="as it was in force, with every default")
    topology: dict[str, Any] = Field(description="as it was in force, with every default")
    settings: dict[str, Any] = Field(default_factory=dict, description="what was changed for this run, by dotted path")
    time_axis: TimeAxis | None = Field(
        None, description="the axis of the run's times; null if they are of the wall clock"
    )
    clock_error_us: int = Field(
        0, description="largest difference between the machines' clocks; 0 for one machine, or if it is unknown"
    )
    slot: int | None = Field(None, description="the slot of the machine; null if the run holds none")
    addresses: dict[str, str] = Field(default_factory=dict, description="the address of each node")
    views: dict[str, dict[str, str]] = Field(
        default_factory=dict, description="by node: the address at which it sees each node of another region"
    )
    host_ports: dict[str, list[int]] = Field(
        default_factory=dict, description="by node: ports of this machine's loopback that may lead to it"
    )
    machine: dict[str, Any] | None = Field(None, description="the machine, if that is not the one that records it")
    versions: dict[str, str | None] = Field(default_factory=dict, description="of all software that the run uses")
    sealed: bool = Field(False, description="whether every job seals the tables that it writes")
    report: str | None = Field(None, description="where a person looks; null for the page in the run's directory")
    keeps_cluster: bool = Field(False, description="whether its cluster may stay for a later run")
    cluster: str | None = Field(
        None, description="directory of the run that started the kept cluster which this run uses; null for its own"
    )
    cluster_use: int = Field(1, ge=1, description="which run of its cluster this is, from 1 on")


# The page for people.
RUN_REPORT = "report/report.html"


@dataclass(frozen=True)
class Run:
    """One run, identified by the location of its directory."""

    directory: str

    @classmethod
    def create(cls, directory: str, *, run_id: str, scenario: Scenario, topology: Topology, **facts: Any) -> Run:
        """Make the directory and write run.json. Raises RunError if the directory already holds a run."""
        run = cls(directory.rstrip("/"))
        if run.exists("run.json"):
            raise RunError(f"{directory} holds a run already; choose another run id")
        content = RunFacts(
            run_id=run_id,
            created_at=clock.to_utc(clock.now_us()),
            scenario=scenario.model_dump(mode="json"),
            topology=topology.model_dump(mode="json"),
            **facts,
        )
        run.write_text("run.json", content.model_dump_json(indent=1))
        return run

    @cached_property
    def facts(self) -> RunFacts:
        """The content of run.json. Raises RunError if the file is missing or does not fit the model RunFacts."""
        file = self.path("run.json")
        try:
            text = self.read_text("run.json")
        except FileNotFoundError:
            raise RunError(f"{file} is missing; is {self.directory} a run?") from None
        return parse_strictly(RunFacts, load_object(text, file=file), file=file)

    def with_facts(self, **changes: Any) -> Run:
        """Return a copy of this run with `changes` made to its facts. The file run.json is not changed."""
        changed = copy(self)
        for parsed in ("scenario", "topology"):
            vars(changed).pop(parsed, None)
        vars(changed)["facts"] = self.facts.model_copy(update=changes)
        return changed

    @property
    def run_id(self) -> str:
        return self.facts.run_id

    @cached_property
    def scenario(self) -> Scenario:
        """The run's scenario with all overrides and defaults."""
        return parse(Scenario, self.facts.scenario, file=self.path("run.json"))

    @cached_property
    def topology(self) -> Topology:
        """The run's topology with all overrides and defaults."""
        return parse(Topology, self.facts.topology, file=self.path("run.json"))

    def path(self, *parts: str) -> str:
        """Return the location of a file or directory below the run's directory."""
        return "/".join([self.directory, *parts])

    @property
    def nodes(self) -> Path:
        """The directory of the nodes. They are on the local disk, in the directory of the run that started them."""
        return Path(self.facts.cluster or self.directory) / "nodes"

    def table(self, name: str) -> str:
        """Return the location of a table's directory. Raises KeyError for a name without a schema in tables.py."""
        if name not in SCHEMAS:
            raise KeyError(name)
        return self.path("tables", name)

    def list_files(self, table: str) -> list[str]:
        """Return the sorted paths of a table's files, relative to the table's directory.

        Unfinished files and Spark's markers, whose names begin with `.` or `_`, are left out. The list is empty if the
        table does not exist. Raises RunError if the directory cannot be listed.
        """
        filesystem, root = fsspec.url_to_fs(self.table(table))
        try:
            found = filesystem.find(root, detail=True) if filesystem.exists(root) else {}
        except OSError as error:
            raise RunError(f"the files of the table {table} of {self.directory} cannot be listed: {error}") from None
        kinds = {path.removeprefix(root).lstrip("/"): facts["type"] for path, facts in found.items()}
        names = [name for name in kinds if not any(part.startswith((".", "_")) for part in name.split("/"))]
        for name in names:
            # A link may point to a file, which is read.
            if kinds[name] != "file":
                try:
                    check_regular(Path(root, name))
                except (ContentError, OSError) as error:
                    raise RunError(f"{self.table(table)}/{name} cannot be read: {error}") from None
        return sorted(names)

    def list_names(self, *parts: str) -> list[str]:
        """Return the sorted names of what is in a directory below the run's directory; none if it does not exist.

        Raises RunError if it cannot be listed.
        """
        filesystem, root = fsspec.url_to_fs(self.path(*parts))
        try:
            found = filesystem.ls(root, detail=False) if filesystem.exists(root) else []
        except OSError as error:
            raise RunError(f"{self.path(*parts)} cannot be listed: {error.strerror or error}") from None
        # No glob pattern is used, because a run's directory may contain characters that are special in a pattern.
        return sorted(path.rstrip("/").rpartition("/")[2] for path in found)

    def exists(self, *parts: str) -> bool:
        """Whether a file or directory exists below the run's directory."""
        filesystem, root = fsspec.url_to_fs(self.path(*parts))
        return bool(filesystem.exists(root))

    def read_text(self, *parts: str) -> str:
        """Return the content of a file.

        Raises FileNotFoundError if it is missing, and RunError if it is no regular file, too large or not UTF-8 text.
        """
        try:
            return read_text(self.path(*parts), MOST_JSON_BYTES)
        except ContentError as error:
            raise RunError(f"{self.path(*parts)} is damaged: {error}") from None

    def refuse_links(self) -> None:
        """Raises InputError if a symbolic link is inside the run's directory.

        Call this before a directory that may be from elsewhere is read or written. What nodes wrote below their own
        directories is not examined, because no step after them uses it.
        """
        filesystem, root = fsspec.url_to_fs(self.directory)
        if isinstance(filesystem, LocalFileSystem) and (link := find_link(Path(root), shallow=("nodes",))):
            raise _refuse_link(link)

    def write_text(self, name: str, content: str) -> None:
        """Write a file so that no reader sees half of it.

        Raises MachineError if it cannot be written, or if its path goes through a symbolic link inside the run.
        """
        self._refuse_links_to(name)
        with stage_object(self.path(name), "w") as file:
            file.write(content)

    def append(self, table: str, rows: list[dict[str, Any]]) -> None:
        """Add rows to a table as one Parquet file; without rows, no file is written.

        A column that a row does not have becomes null. Times may be given as microseconds since the epoch.
        """
        if not rows:
            return
        schema = SCHEMAS[table]
        self._refuse_links_to(f"tables/{table}")
        columns = [pa.array([row.get(field.name) for row in rows], type=field.type) for field in schema]
        with stage_object(self.path("tables", table, f"part-{clock.now_us()}.parquet"), "wb") as file:
            pq.write_table(pa.Table.from_arrays(columns, schema=schema), file)

    def _refuse_links_to(self, name: str) -> None:
        filesystem, root = fsspec.url_to_fs(self.directory)
        if isinstance(filesystem, LocalFileSystem):
            file = Path(root, name)
            for place in (file, *file.parents[: name.count("/")]):
                if place.is_symlink():
                    raise MachineError(str(_refuse_link(place)))


def _refuse_link(link: Path) -> InputError:
    return InputError(
        "is a symbolic link inside a run, and may lead to files that are not the run's",
        file=str(link),
        remedy="delete it, or put in its place what it leads to",
    )
