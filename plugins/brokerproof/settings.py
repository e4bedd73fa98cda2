"""The settings of this machine, such as its directories and limits, from the environment variables BROKERPROOF_….

A field's name is the name of its variable without the prefix, in small letters. `make docs` writes docs/settings.md
from the fields.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv4Network
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from brokerproof.directories import Directories
from brokerproof.errors import InputError

PREFIX = "BROKERPROOF_"
# The prefix length of the network that each cluster takes from `container_subnets`. A network has 2**16 addresses.
_SLOT_BITS = 16
_CHECKOUT = Path(__file__).resolve().parents[2]
# Docker takes the first part of an image's name for a registry if it has a dot or a port, or is `localhost`.
_REGISTRY = re.compile(
    r"(?:localhost|(?:[a-zA-Z0-9-]+\.)+[a-zA-Z0-9-]+|[a-zA-Z0-9-]+(?=:))(?::\d{1,5})?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
)


def _setting(default_in_words: str, description: str, **options: Any) -> Any:
    """Return a field of `Settings`. docs/settings.md shows the description and the default in words."""
    return Field(description=description, json_schema_extra={"default": default_in_words}, **options)


# For each setting that lists directories, the shipped directory below `home`.
_SHIPPED = {"scenarios": "dags/scenarios", "topologies": "topologies", "expectations": "expectations"}
_DAYS = (5, "days", "write a whole number from 1 on, like `30`, or leave it unset to keep everything")
# The settings that may hold a password. The variable NAME_FILE names a file with the value of NAME.
_SECRETS = ("database_url", "history_reader_url", "notify", "spark_secret")
# The settings that are whole numbers from 1 on, each with (most digits, unit, remedy).
_COUNTS = {
    "max_clusters": (6, "clusters", "write a whole number from 1 on, like `2`"),
    "keep_tables_days": _DAYS,
    "keep_runs_days": _DAYS,
    "keep_failed_days": _DAYS,
    "keep_airflow_days": (5, "days", "write a whole number from 1 on, like `30`, or leave it unset for 90"),
    "clock_error_ms": (5, "milliseconds", "write a whole number from 1 to 99999, like `20`, or leave it unset"),
}


class Settings(BaseModel):
    """The settings of this machine. Each field has a description and a default in words."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    home: Path = _setting(
        "the checkout that runs",
        "the directory of the project, with `dags/`, `topologies/` and the rest",
        default=_CHECKOUT,
    )
    var: Path = _setting(
        "`var/`", "the directory for everything that runs write", default_factory=lambda found: found["home"] / "var"
    )
    scenarios: Directories = _setting(
        "`dags/scenarios/`",
        "the directories of the scenario files, separated by `:`; an empty entry, as in `/mine:`, is the "
        "shipped directory",
        default="",
    )
    topologies: Directories = _setting(
        "`topologies/`", "the directories of the topology files, written like those of the scenarios", default=""
    )
    expectations: Directories = _setting(
        "`expectations/`",
        "the directories of the suites, written in the same way; a suite replaces the shipped one of the "
        "same name, and any other suite is judged in addition to the five",
        default="",
    )
    cache: Path = _setting(
        "`~/.cache/brokerproof`",
        "the directory for distributions of messaging systems and class data archives",
        default_factory=lambda: Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "brokerproof",
    )
    # Not in `repr`, because it may contain a password.
    database_url: str | None = _setting(
        "SQLite in `var/`", "the database of the history, any SQLAlchemy URL", default=None, repr=False
    )
    history_reader_url: str | None = _setting(
        "`BROKERPROOF_DATABASE_URL`",
        "the same database for pages, metrics and commands that only read it; its user needs no right to write",
        default=None,
        repr=False,
    )
    max_clusters: int | None = _setting(
        "one per 6 GiB of memory", "the number of clusters that run at a time; further runs wait", default=None
    )
    leases: Path = _setting(
        "`/tmp/brokerproof-UID`",
        "the directory that shows which slots of this machine are held, one for all checkouts",
        default_factory=lambda: Path(tempfile.gettempdir()) / f"brokerproof-{os.getuid()}",
    )
    image: str = _setting(
        "`brokerproof:latest`",
        "the image of Brokerproof itself, which `make image` builds; links between regions of containers run in it",
        default="brokerproof:latest",
    )
    registry: str | None = _setting(
        "each image's own registry",
        "the registry that has the images of messaging systems, with a path if needed, like "
        "`registry.example.com/mirror`",
        default=None,
    )
    installation: str | None = _setting(
        "no name",
        "the name of this installation in the names of its containers, networks and volumes, of pairs of hexadecimal "
        "digits; `make compose-secrets` chooses it",
        default=None,
    )
    container_subnets: IPv4Network = _setting(
        "`10.208.0.0/12`",
        "the addresses that networks of containers take, 16 bits for each cluster",
        default=IPv4Network("10.208.0.0/12"),
    )
    container_ports: int = _setting(
        "`21000`",
        "the first port of this machine's loopback at which nodes in containers are published, 500 for each cluster",
        default=21_000,
    )
    runtime: str = _setting(
        "`process`",
        "the runtime of scenarios that name none: `process`, or `docker` where all nodes live in containers",
        default="process",
    )
    spark_driver_memory: str = _setting("`1g`", "the memory of each Spark driver", default="1g")
    streaming_memory: str = _setting(
        "`512m`",
        "the memory of the Spark driver of each streaming consumer; Spark refuses less than 450m",
        default="512m",
    )
    clock_error_ms: int | None = _setting(
        "not known",
        "the most milliseconds by which the clocks of the machines differ, if Spark's workers are on other "
        "machines; without it, no verdict rests on times of two machines",
        default=None,
    )
    keep_tables_days: int | None = _setting(
        "kept for ever", "the days after which `brokerproof prune` deletes a run's tables of messages", default=None
    )
    keep_runs_days: int | None = _setting(
        "kept for ever",
        "the days after which it deletes a run's whole directory; the history keeps the run's result",
        default=None,
    )
    keep_failed_days: int | None = _setting(
        "like other runs",
        "the days for which it keeps a run whose outcome is not the expected one, if this is longer",
        default=None,
    )
    keep_airflow_days: int = _setting(
        "`90`",
        "the days after which the DAG `clean_up` removes rows of Airflow's database and logs of tasks",
        default=90,
    )
    # {name of a messaging system that is not built in: MODULE:ATTRIBUTE of its object}
    systems: Mapping[str, str] = _setting(
        "none",
        "messaging systems beside the built-in ones, as `name=module:attribute`, comma separated",
        default_factory=dict,
    )
    # A list as JSON. Not in `repr`, because it may contain a password.
    notify: str | None = _setting(
        "no notifier",
        "the notifiers for runs that are not as expected or worse than before, a list in JSON "
        "([how](results-elsewhere.md#tell-somebody))",
        default=None,
        repr=False,
    )

    # Not in `repr`, because it is a password.
    spark_secret: str | None = _setting(
        "a new one for each local job",
        "the secret that Spark's master, workers and drivers share; a process without it is refused",
        default=None,
        repr=False,
    )

    @field_validator("home", "var", "cache", "leases")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return _make_absolute(value)

    @field_validator(*_SHIPPED, mode="before")
    @classmethod
    def _are_directories(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, str) or "home" not in info.data:
            return value
        field = str(info.field_name)
        shipped = (info.data["home"] / _SHIPPED[field]).resolve()
        entries = value.split(os.pathsep)
        paths = dict.fromkeys(_make_absolute(Path(entry)) if entry else shipped for entry in entries)
        return Directories(tuple(paths), variable=variable(field), shipped=shipped, replaceable=field == "expectations")

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if not (self.home / "topologies").is_dir():
            raise InputError(
                "holds no topologies/", field="home", remedy=f"set it to Brokerproof's directory, not to {self.home}"
            )
        return self

    @field_validator(*_COUNTS, mode="before")
    @classmethod
    def _is_a_count(cls, value: Any, info: ValidationInfo) -> Any:
        digits, unit, remedy = _COUNTS[str(info.field_name)]
        if isinstance(value, str) and not re.fullmatch(rf"[1-9]\d{{0,{digits - 1}}}", value.strip()):
            raise InputError(f"`{value}` is no number of {unit}", remedy=remedy)
        return value

    @field_validator("container_subnets", mode="before")
    @classmethod
    def _is_a_network(cls, value: Any) -> Any:
        try:
            network = IPv4Network(value)
        except ValueError:
            network = None
        if network is None or network.prefixlen > _SLOT_BITS:
            raise InputError(
                f"`{value}` is no range of networks", remedy=f"write it like `10.208.0.0/12`, up to `/{_SLOT_BITS}`"
            )
        return network

    @field_validator("container_ports", mode="before")
    @classmethod
    def _is_a_port(cls, value: Any) -> Any:
        if not (re.fullmatch(r"\d{4,5}", str(value).strip()) and 1024 <= int(value) <= 60_000):
            raise InputError(f"`{value}` is no first port", remedy="write a number from 1024 to 60000, like `21000`")
        return value

    @field_validator("registry")
    @classmethod
    def _is_a_registry(cls, value: str | None) -> str | None:
        if value is not None and _REGISTRY.fullmatch(value) is None:
            raise InputError(
                f"`{value}` is no registry of images",
                remedy="write a host, with a port and a path if needed, without `https://` or a last `/`: "
                "`registry.example.com:5000/mirror`",
            )
        return value

    @field_validator("installation")
    @classmethod
    def _is_a_name(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"(?:[0-9a-f]{2}){1,16}", value):
            raise InputError(
                f"`{value}` is no name of an installation",
                remedy="write 1 to 16 pairs of the digits 0-9 and a-f, like `3f09a2c1`",
            )
        return value

    @field_validator("spark_driver_memory", "streaming_memory")
    @classmethod
    def _is_a_size(cls, value: str) -> str:
        if not re.fullmatch(r"[1-9]\d*[mg]", value):
            raise InputError(f"`{value}` is no size", remedy="write it like `1g` or `800m`")
        return value

    @field_validator("systems", mode="before")
    @classmethod
    def _are_systems(cls, value: Any) -> Any:
        return _parse_systems(value) if isinstance(value, str) else value

    def to_environment(self) -> dict[str, str]:
        """Return environment variables that give a process the same settings, in any working directory.

        The variable of a setting without a value is empty, so that the process does not inherit another value.
        """
        values = {name: getattr(self, name) for name in type(self).model_fields}
        values["systems"] = ",".join(f"{name}={place}" for name, place in self.systems.items())
        values |= {name: _list_entries(getattr(self, name)) for name in _SHIPPED}
        values |= {f"{name}_file": None for name in _SECRETS}
        return {variable(name): "" if value is None else str(value) for name, value in values.items()}

    def name_image(self, official: str) -> str:
        """Return the name of a messaging system's image, in the setting `registry` if it is set."""
        return f"{self.registry}/{official}" if self.registry else official

    def python_path(self, given: str | None) -> str:
        """Return a PYTHONPATH for another process: the project's directories, then `given`, the user's own PYTHONPATH.

        The user's PYTHONPATH may contain the modules of messaging systems that are outside this repository.
        """
        places = [str(self.plugins), str(self.spark_jobs), *(given or "").split(os.pathsep)]
        return os.pathsep.join(dict.fromkeys(filter(None, places)))

    def list_sources(self) -> list[Path]:
        """Return the directories of scenarios, topologies and suites, from which Airflow's DAGs are made."""
        return [path for field in _SHIPPED for path in getattr(self, field).paths]

    @property
    def dags(self) -> Path:
        return self.home / "dags"

    @property
    def plugins(self) -> Path:
        """The directory of Airflow's plugins, which also contains the package `brokerproof`."""
        return self.home / "plugins"

    @property
    def spark_jobs(self) -> Path:
        """The directory of the programs that spark-submit runs."""
        return self.home / "spark_jobs"

    @property
    def runs(self) -> Path:
        """The directory with one directory per run."""
        return self.var / "runs"

    @property
    def airflow_home(self) -> Path:
        return self.var / "airflow"

    @property
    def spark_temporary(self) -> Path:
        """The directory of the temporary files of Spark jobs, see spark/submission.py."""
        return self.var / "spark-temporary"

    def scenario_file(self, name: str) -> Path:
        """Return the path of a scenario's file, or its path in the first directory if no directory has the file.

        Raises InputError if two directories have the file, or if no directory has it and a directory cannot be read.
        """
        return self.scenarios.find(name) or self.scenarios.paths[0] / f"{name}.yaml"

    def scenario_files(self) -> list[Path]:
        """Return the scenario files, sorted by name. If two directories have the same file name, both are left out."""
        return list(self.scenarios.list_files().values())

    def check_directories(self) -> None:
        """Raises InputError if a directory of scenarios, topologies or suites cannot be read.

        The validation of the settings does not check this, because commands such as `down` work without these
        directories.
        """
        for name in _SHIPPED:
            getattr(self, name).check_readable()


def variable(field: str) -> str:
    """Return the name of a setting's environment variable."""
    return f"{PREFIX}{field.upper()}"


def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
    """Return the settings from the environment. An empty variable counts as not set.

    Raises InputError, which names the variable, if a value or a file of a secret cannot be used.
    """
    given = os.environ if environment is None else environment
    values = {name: value for name in Settings.model_fields if (value := given.get(variable(name)))}
    values |= {name: value for name in _SECRETS if (value := read_secret(variable(name), given))}
    try:
        return Settings(**values)
    except ValidationError as error:
        raise _unusable(error) from None


def read_secret(name: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the variable `name`, or the content of the file that the variable NAME_FILE names; empty without both.

    White space at the ends of the file does not count. Raises InputError if both variables are set, or if the file
    cannot be read.
    """
    field = f"{name}_FILE"
    value, file = environment.get(name, ""), environment.get(field)
    if not file:
        return value
    if value:
        raise InputError(f"{name} is set too", field=field, remedy="set only one of the two")
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise InputError(
            f"`{file}` cannot be read: {reason}", field=field, remedy="name a file that this user may read"
        ) from None


def systems_from_environment() -> Mapping[str, str]:
    """Return only the setting `systems`, faster than `from_environment`. Raises InputError if it is malformed."""
    name = variable("systems")
    try:
        return _parse_systems(os.environ.get(name, ""))
    except InputError as error:
        raise InputError(error.problem, field=name, remedy=error.remedy) from None


def _make_absolute(path: Path) -> Path:
    """Return the absolute path of a directory, with `~` and symbolic links resolved.

    Raises InputError if the path is too long, names an unknown user after `~`, or may not be inspected by this user.
    """
    try:
        path = path.expanduser().resolve()
        path.exists()
    except (OSError, RuntimeError) as error:
        # The name is too long for a file, this user has no permission to look there, or no user has the name after `~`.
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"`{path}` is no directory: {reason}", remedy="set it to a directory") from None
    return path


def _list_entries(directories: Directories) -> str:
    """Return the value of the environment variable that lists `directories`; empty for the shipped directory alone."""
    return os.pathsep.join("" if path == directories.shipped else str(path) for path in directories.paths)


@lru_cache
def _parse_systems(value: str) -> Mapping[str, str]:
    """Return {name: "module:attribute"} for `name=module:attribute,…`. Raises InputError if an entry is malformed."""
    found: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in value.split(","))):
        match = re.fullmatch(r"([a-z][a-z0-9_-]*)=([\w.]+:\w+)", entry)
        if match is None:
            raise InputError(
                f"`{entry}` names no messaging system", remedy="write `name=module:attribute`, comma separated"
            )
        found[match[1]] = match[2]
    return MappingProxyType(found)


def _unusable(error: ValidationError) -> InputError:
    first = error.errors(include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        field = variable(str(first["loc"][0]) if first["loc"] else cause.field)
        return InputError(cause.problem, field=field, remedy=cause.remedy)
    field = variable(str(first["loc"][0]))
    return InputError(f"{first['msg'][0].lower()}{first['msg'][1:]}", field=field, remedy="correct the value")
