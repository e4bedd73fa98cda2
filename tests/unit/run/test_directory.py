from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import fsspec
import pyarrow.parquet as pq
import pytest
from brokerproof.errors import InputError, MachineError, RunError
from brokerproof.run.directory import Run
from builders import make_run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path / "r", "sync_datacenter_loss", run_id="r1")


def test_a_run_reads_back_what_it_was_made_from(run: Run) -> None:
    again = Run(run.directory)
    assert again.run_id == "r1"
    assert again.scenario == run.scenario
    assert again.topology == run.topology


def test_a_directory_holds_one_run(run: Run) -> None:
    with pytest.raises(RunError, match="holds a run already"):
        Run.create(run.directory, run_id="r2", scenario=run.scenario, topology=run.topology)


def test_what_is_known_before_a_run_is_read_as_it_was_written(tmp_path: Path, run: Run) -> None:
    known = {
        **{"triggered_at": 7, "slot": 1, "addresses": {"b1": "127.10.1.11"}, "views": {"b1": {"b2": "127.10.2.1"}}},
        **{"settings": {"workload.rate": 5}, "report": "https://here", "triggered_by": "alice"},
    }
    made = Run.create(str(tmp_path / "x"), run_id="r2", scenario=run.scenario, topology=run.topology, **known)
    facts = Run(made.directory).facts
    assert facts == made.facts
    assert {name: getattr(facts, name) for name in known} == known
    assert (facts.run_id, facts.clock_error_us, facts.created_at.tzinfo) == ("r2", 0, UTC)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda facts: facts.pop("run_id"), "`run_id` is missing"),
        (lambda facts: facts.update(clock_error_us="little"), "`clock_error_us` input should be a valid integer"),
        (lambda facts: facts.update(created_at="yesterday"), "`created_at` input should be a valid datetime"),
        (lambda facts: facts.update(adresses={}), "`adresses` extra inputs are not permitted"),
        (lambda facts: facts.update(version=2), "`version` input should be 1"),
        (lambda facts: facts.update(run_id="../r1"), "`run_id` string should match pattern"),
        (lambda facts: facts.update(run_id="<img src=x>"), "`run_id` string should match pattern"),
    ],
)
def test_a_run_json_that_breaks_its_model_is_refused(run: Run, spoil: Callable[[Any], Any], said: str) -> None:
    content = json.loads(run.read_text("run.json"))
    spoil(content)
    run.write_text("run.json", json.dumps(content))
    with pytest.raises(RunError) as refused:
        _ = Run(run.directory).facts
    assert str(refused.value).startswith(f"{run.path('run.json')} is damaged: {said}")


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"run.json is missing; is .* a run\?"):
        _ = Run(str(tmp_path)).facts


def test_a_run_json_without_a_version_is_read(run: Run) -> None:
    content = json.loads(run.read_text("run.json"))
    del content["version"]
    run.write_text("run.json", json.dumps(content))
    assert Run(run.directory).facts == run.facts


def test_a_file_that_is_no_text_is_refused(run: Run) -> None:
    Path(run.path("x.json")).write_bytes(b"\xff")
    with pytest.raises(RunError, match=r"x.json is damaged: .*utf-8"):
        run.read_text("x.json")


def test_rows_are_appended_with_the_schema_of_the_table(run: Run) -> None:
    run.append("observations", [{"run_id": "r1", "at": 1, "source": "a", "metric": "b", "value": "c"}])
    run.append("observations", [{"run_id": "r1", "at": 2, "source": "a", "metric": "b"}])
    table = pq.read_table(run.table("observations"))
    assert table.column("value").to_pylist() == ["c", None]
    with pytest.raises(KeyError):
        run.table("segments")


@pytest.mark.parametrize("link", ["state", "state/outcome.json", "state/more"])
def test_nothing_is_written_through_a_link_inside_a_run(run: Run, tmp_path: Path, link: str) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    place = Path(run.directory, link)
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(elsewhere)
    name = "state/more/outcome.json" if link == "state/more" else "state/outcome.json"
    with pytest.raises(MachineError, match="is a symbolic link inside a run"):
        run.write_text(name, "{}")
    assert list(elsewhere.iterdir()) == []


def test_no_rows_are_written_through_a_link_inside_a_run(run: Run, tmp_path: Path) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    Path(run.directory, "tables").symlink_to(elsewhere)
    with pytest.raises(MachineError, match="is a symbolic link inside a run"):
        run.append("faults", [{"run_id": "r1"}])
    assert list(elsewhere.iterdir()) == []


def test_a_link_inside_a_run_is_found_and_one_that_leads_to_it_is_not(run: Run, tmp_path: Path) -> None:
    (tmp_path / "runs").symlink_to(tmp_path)
    own = Run(str(tmp_path / "runs" / "r"))
    own.write_text("state/outcome.json", "{}")
    # A system may leave links below the directories of its nodes. No step reads or writes there after the run.
    data = Path(run.directory, "nodes/b1/logs")
    data.mkdir(parents=True)
    (data / "newest.log").symlink_to("b1.log")
    own.refuse_links()
    link = data.parents[1] / "b2"
    link.symlink_to("b1")
    with pytest.raises(InputError, match="nodes/b2: is a symbolic link inside a run"):
        own.refuse_links()


def test_no_client_of_an_object_store_remembers_what_a_directory_held() -> None:
    class Store(fsspec.AbstractFileSystem):
        protocol = ("s3", "s3a")

    assert not Store().dircache.use_listings_cache
    assert fsspec.AbstractFileSystem(skip_instance_cache=True).dircache.use_listings_cache, "the default has changed"
