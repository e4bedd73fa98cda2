"""The live status: it is found if the path has glob characters, and counters go on in a client's next process."""

from __future__ import annotations

from pathlib import Path

import pytest
from brokerproof.run.live_status import LiveStatus, read_every_live_status, read_live_status
from builders import make_run


@pytest.mark.parametrize("directory", ["runs", "runs [old]", "runs*", "what?", "[!a]"])
def test_the_live_status_of_every_part_is_read(tmp_path: Path, directory: str) -> None:
    run = make_run(tmp_path / directory / "r", "sync_datacenter_loss", run_id="r1")
    other = make_run(tmp_path / "runs and others" / "r", "sync_datacenter_loss", run_id="r2")
    LiveStatus(other, "producer-9").show(pending=9)
    assert read_every_live_status(run) == {}
    for part, pending in (("producer-1", 4), ("producer-0", 3)):
        LiveStatus(run, part).show(pending=pending)
    (Path(run.directory) / "progress" / "unfinished.tmp").touch()
    found = read_every_live_status(run)
    assert [(part, status["pending"]) for part, status in found.items()] == [("producer-0", 3), ("producer-1", 4)]


def test_counters_of_a_client_go_on_behind_those_of_its_earlier_process(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    LiveStatus(run, "load-0", totals=["acked"]).show(acked=7, pending=3)
    live = LiveStatus(run, "load-0", totals=["acked"])
    live.show(acked=2, pending=1)
    live.show(acked=4)
    shown = read_live_status(run, "load-0")
    assert (shown["acked"], shown["pending"]) == (11, 1)
