"""The settings of the machine: one model, refused in sentences, the same in every process that is started."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from brokerproof.clock import AXIS
from brokerproof.errors import InputError
from brokerproof.experiment.scenario import Scenario
from brokerproof.machine import slots
from brokerproof.machine.processes import MARK, SERVICE_MARK
from brokerproof.settings import Settings, from_environment, variable
from builders import ROOT, SCENARIOS, TOPOLOGIES

NO_DAYS = "`{}` is no number of days (write a whole number from 1 on, like `30`, or leave it unset to keep everything)"

NO_REGISTRIES = (
    *("https://registry.example.com", "registry.example.com/", "registry example.com", "mirror", "mirror/of/images"),
    *("registry.example.com/Mirror", "registry.example.com:port", "user@registry.example.com", "/mirror", "a..b"),
)
NO_REGISTRY = (
    "`{}` is no registry of images (write a host, with a port and a path if needed, without `https://` or a last `/`: "
    "`registry.example.com:5000/mirror`)"
)
NO_NAMES = ("postgres", "abc", "ab-cd", "AB", ".*", "a b", "ab" * 17)
NO_NAME = "`{}` is no name of an installation (write 1 to 16 pairs of the digits 0-9 and a-f, like `3f09a2c1`)"


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("MAX_CLUSTERS", "x", "`x` is no number of clusters (write a whole number from 1 on, like `2`)"),
        ("MAX_CLUSTERS", "0", "`0` is no number of clusters (write a whole number from 1 on, like `2`)"),
        (
            "CLOCK_ERROR_MS",
            "0",
            "`0` is no number of milliseconds (write a whole number from 1 to 99999, like `20`, or leave it unset)",
        ),
        ("MAX_CLUSTERS", "1.5", "`1.5` is no number of clusters (write a whole number from 1 on, like `2`)"),
        ("KEEP_TABLES_DAYS", "0", NO_DAYS.format("0")),
        ("KEEP_RUNS_DAYS", "a month", NO_DAYS.format("a month")),
        ("KEEP_FAILED_DAYS", "-1", NO_DAYS.format("-1")),
        (
            "KEEP_AIRFLOW_DAYS",
            "0",
            "`0` is no number of days (write a whole number from 1 on, like `30`, or leave it unset for 90)",
        ),
        (
            "CONTAINER_SUBNETS",
            "10.0.0.0/24",
            "`10.0.0.0/24` is no range of networks (write it like `10.208.0.0/12`, up to `/16`)",
        ),
        ("CONTAINER_SUBNETS", "many", "`many` is no range of networks (write it like `10.208.0.0/12`, up to `/16`)"),
        ("CONTAINER_PORTS", "80", "`80` is no first port (write a number from 1024 to 60000, like `21000`)"),
        ("CONTAINER_PORTS", "http", "`http` is no first port (write a number from 1024 to 60000, like `21000`)"),
        ("SPARK_DRIVER_MEMORY", "2 GB", "`2 GB` is no size (write it like `1g` or `800m`)"),
        *(("REGISTRY", value, NO_REGISTRY.format(value)) for value in NO_REGISTRIES),
        *(("INSTALLATION", value, NO_NAME.format(value)) for value in NO_NAMES),
        ("HOME", "/", "holds no topologies/ (set it to Brokerproof's directory, not to /)"),
        ("SYSTEMS", "log", "`log` names no messaging system (write `name=module:attribute`, comma separated)"),
        ("SYSTEMS", "a=b:c,d=e", "`d=e` names no messaging system (write `name=module:attribute`, comma separated)"),
    ],
)
def test_a_value_that_cannot_be_used_is_reported_with_its_variable_and_a_remedy(
    name: str, value: str, sentence: str
) -> None:
    with pytest.raises(InputError) as error:
        from_environment({f"BROKERPROOF_{name}": value})
    assert str(error.value) == f"BROKERPROOF_{name}: {sentence}"


def test_whoever_asks_for_slots_gets_that_sentence_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERPROOF_MAX_CLUSTERS", "x")
    with pytest.raises(InputError, match="BROKERPROOF_MAX_CLUSTERS: `x` is no number of clusters"):
        slots.count_slots()


def test_without_variables_everything_is_where_the_readme_says() -> None:
    settings = from_environment({})
    assert (settings.home, settings.var) == (ROOT, ROOT / "var")
    assert settings.scenarios.paths == (SCENARIOS,)
    assert settings.topologies.paths == (TOPOLOGIES,)
    assert settings.expectations.paths == (ROOT / "expectations",)
    assert (settings.max_clusters, settings.database_url, settings.systems) == (None, None, {})


def test_an_empty_variable_is_as_good_as_none() -> None:
    assert from_environment({variable(name): "" for name in Settings.model_fields}) == from_environment({})


def test_what_follows_from_a_setting_follows_it(tmp_path: Path) -> None:
    (tmp_path / "topologies").mkdir()
    settings = from_environment({"BROKERPROOF_HOME": str(tmp_path)})
    assert settings.scenarios.paths == (tmp_path / "dags" / "scenarios",)
    assert settings.topologies.paths == (tmp_path / "topologies",)
    assert settings.runs == tmp_path / "var" / "runs"


@pytest.mark.parametrize("name", ["scenarios", "topologies", "expectations"])
def test_directories_are_listed_like_those_of_path_and_an_empty_entry_is_the_shipped_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    shipped = getattr(from_environment({}), name).paths[0]
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def read(value: str) -> tuple[Path, ...]:
        return tuple(getattr(from_environment({f"BROKERPROOF_{name.upper()}": value}), name).paths)

    assert read("/mine") == (Path("/mine"),)
    assert read("/mine:") == (Path("/mine"), shipped)
    assert read(":/mine") == (shipped, Path("/mine"))
    assert read(":") == (shipped,)
    assert read("/mine:/my other files::/mine/../mine") == (Path("/mine"), Path("/my other files"), shipped)
    assert read("mine:~/also") == (tmp_path / "mine", tmp_path / "home" / "also")


@pytest.mark.parametrize("name", ["scenarios", "topologies", "expectations"])
def test_a_directory_that_cannot_be_read_is_reported_with_its_variable_where_files_are_needed(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").touch()
    for path, reason in ((tmp_path / "gone", "No such file or directory"), (tmp_path / "file", "Not a directory")):
        settings = from_environment({variable(name): f"{path}:"})
        with pytest.raises(InputError) as error:
            settings.check_directories()
        assert str(error.value) == (
            f"{variable(name)}: the directory {path} cannot be read: {reason} "
            "(correct the path, or take it out of the list)"
        )
    from_environment({variable(name): f"{tmp_path}:"}).check_directories()


def test_a_home_of_nobody_is_reported_with_its_variable() -> None:
    with pytest.raises(InputError, match="BROKERPROOF_SCENARIOS: `~nobody_at_all/mine` is no directory"):
        from_environment({"BROKERPROOF_SCENARIOS": "~nobody_at_all/mine"})


@pytest.mark.parametrize(
    "registry", ["registry.example.com", "registry.example.com:5000/mirror/of-images", "localhost", "mirror:5000/a_b"]
)
def test_an_image_is_in_the_registry_of_the_settings(registry: str) -> None:
    assert from_environment({}).name_image("a/b:1") == "a/b:1"
    assert from_environment({"BROKERPROOF_REGISTRY": registry}).name_image("a/b:1") == f"{registry}/a/b:1"


def test_systems_are_listed_by_name() -> None:
    settings = from_environment({"BROKERPROOF_SYSTEMS": "log=logserver.system:LOG, other=a.b:C,"})
    assert settings.systems == {"log": "logserver.system:LOG", "other": "a.b:C"}


def test_a_password_of_the_database_is_not_shown() -> None:
    settings = from_environment({"BROKERPROOF_DATABASE_URL": "postgresql://u:secret@h/d"})
    assert settings.database_url == "postgresql://u:secret@h/d"
    assert "secret" not in repr(settings)


@pytest.mark.parametrize("name", ["DATABASE_URL", "NOTIFY", "SPARK_SECRET"])
def test_a_secret_can_come_from_a_file(name: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("sqlite:///a.db\n")
    settings = from_environment({f"BROKERPROOF_{name}_FILE": str(tmp_path / "secret")})
    assert getattr(settings, name.lower()) == "sqlite:///a.db"
    (tmp_path / "secret").write_text("\n")
    assert getattr(from_environment({f"BROKERPROOF_{name}_FILE": str(tmp_path / "secret")}), name.lower()) is None


def test_a_secret_that_is_set_twice_or_whose_file_cannot_be_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    with pytest.raises(InputError) as missing:
        from_environment({"BROKERPROOF_SPARK_SECRET_FILE": str(file)})
    assert str(missing.value) == (
        f"BROKERPROOF_SPARK_SECRET_FILE: `{file}` cannot be read: No such file or directory "
        "(name a file that this user may read)"
    )
    file.write_bytes(b"\xff")
    with pytest.raises(InputError, match="it is not text in UTF-8"):
        from_environment({"BROKERPROOF_SPARK_SECRET_FILE": str(file)})
    file.write_text("one")
    with pytest.raises(InputError, match="BROKERPROOF_SPARK_SECRET is set too"):
        from_environment({"BROKERPROOF_SPARK_SECRET_FILE": str(file), "BROKERPROOF_SPARK_SECRET": "two"})


def test_another_process_has_the_same_settings_wherever_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "VAR": "here/var",
        "SCENARIOS": "here/my scenarios:",
        # As empty as the default, which another process must not take for a path of its own.
        "TOPOLOGIES": str(TOPOLOGIES),
        "EXPECTATIONS": ":here/expectations",
        "CACHE": "here/cache",
        "LEASES": "leases",
        "MAX_CLUSTERS": "7",
        "KEEP_TABLES_DAYS": "30",
        "DATABASE_URL": "sqlite:///x.db",
        "SPARK_DRIVER_MEMORY": "800m",
        "SYSTEMS": "log=logserver.system:LOG,other=a.b:C",
    }.items():
        monkeypatch.setenv(f"BROKERPROOF_{name}", value)
    settings = from_environment()
    assert (settings.var, settings.cache, settings.leases) == (
        Path("here/var").absolute(),
        Path("here/cache").absolute(),
        Path("leases").absolute(),
    )
    assert settings.scenarios.paths == (Path("here/my scenarios").absolute(), SCENARIOS)
    code = "from brokerproof.settings import from_environment; print(repr(from_environment().to_environment()))"
    environment = {**os.environ, **settings.to_environment()}
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert said.strip() == repr(settings.to_environment())
    assert from_environment(settings.to_environment()) == settings


def test_another_process_inherits_no_value_of_a_setting_that_is_not_set() -> None:
    settings = from_environment({})
    inherited = {
        "database_url": "sqlite:///x.db",
        "history_reader_url": "sqlite:///x.db",
        "max_clusters": "7",
        "registry": "registry.example.com",
        "installation": "3f09a2c1",
        "clock_error_ms": "20",
        "keep_tables_days": "30",
        "keep_runs_days": "90",
        "keep_failed_days": "365",
        "systems": "log=logserver.system:LOG",
        "spark_secret": "known",
        "notify": "[]",
    }
    assert {name for name, value in settings if value is None or value == {}} == inherited.keys()
    environment = {variable(name): value for name, value in inherited.items()}
    assert from_environment(environment | settings.to_environment()) == settings


def test_the_users_python_path_stays_behind_the_projects() -> None:
    settings = from_environment({})
    ours = [str(ROOT / "plugins"), str(ROOT / "spark_jobs")]
    assert settings.python_path(None).split(":") == ours
    assert settings.python_path(f"/mine:{ours[0]}:/more").split(":") == [*ours, "/mine", "/more"]


def test_every_setting_has_a_description_and_a_default_in_words() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert field.json_schema_extra["default"], name  # type: ignore[index]


def test_no_variable_is_read_past_the_settings() -> None:
    """Every other BROKERPROOF_… variable marks a process, names its time axis, or belongs to a test."""
    known = {variable(name) for name in Settings.model_fields} | {MARK, SERVICE_MARK, AXIS}
    folders = [ROOT / name for name in ("plugins", "spark_jobs", "dags", "tools")]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    named = {name for path in files for name in re.findall(r"BROKERPROOF_[A-Z_]+[A-Z]", path.read_text())}
    assert named <= known


def test_a_scenario_that_names_no_runtime_has_the_one_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = {"namespace": "a/b", "topic": "t", "rate": 1, "size": 16, "keys": 1, "producers": 1}
    fields = {"name": "a", "title": "A", "description": "A.", "topology": "t", "workload": workload}
    assert Scenario.model_validate(fields).runtime == "process"
    monkeypatch.setenv("BROKERPROOF_RUNTIME", "docker")
    assert Scenario.model_validate(fields).runtime == "docker"
    assert Scenario.model_validate({**fields, "runtime": "process"}).runtime == "process"
