"""A message's life on a terminal and as a page, and the command `explain` that prints it."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import fsspec
import pytest
from brokerproof.cli import build_parser, main
from brokerproof.experiment.guarantees import Anomaly
from brokerproof.reports.messages.message_life import MessageLife, read_message_life
from brokerproof.reports.messages.message_view import print_message_life, render_message_page
from brokerproof.reports.pages import Page
from brokerproof.run.directory import Run
from rich.console import Console

from ...judging.history import SECOND, START, History
from .planted_judgement import anomaly, leave_judgement, place

KILL = {"name": "eu_killed", "kind": "kill", "targets": {"region": "eu"}}
HOUR = 3600 * SECOND


def plant(directory: Path, *, facts: dict[str, int] | None = None, apart_us: int = SECOND) -> Run:
    """A message that was tried twice while a fault was in force, and delivered twice."""
    history = History(faults=[KILL])
    history.facts |= facts or {}
    unsettled = {"outcome": "unknown", "error": "[bold]timeout", "settled_at": None}
    history.publish(producer="p1", seq=1, at=0, scheduled_at=START - 4000, **unsettled)
    history.publish(producer="p1", seq=1, at=2 * SECOND, epoch=1)
    history.store(producer="p1", seq=1, offset=7, published_at=START)
    history.deliver(producer="p1", seq=1, at=3 * SECOND, offset=7, acked=None)
    again = {"incarnation": 1, "redelivery_count": 1, "replicated_from": "other"}
    history.deliver(producer="p1", seq=1, at=3 * SECOND + apart_us, offset=7, **again)
    for state, at in (("injecting", -SECOND), ("effective", SECOND)):
        history.faults.append(
            {
                "fault": "eu_killed",
                "kind": "kill",
                "targets": ["b-1"],
                "state": state,
                "at": START + at,
                "evidence": "e",
            }
        )
    run = history.write(directory)
    twice = anomaly(Anomaly.DELIVERED_TWICE, "p1", 1, legal=True, subscription="audit", detail="delivered again")
    places = [place("p1", 1), place("p1", 1, subscription="audit", deliveries=2)]
    leave_judgement(run, places=places, anomalies=[twice])
    return run


def show(run: Run, *, width: int = 200) -> str:
    output = io.StringIO()
    print_message_life(read_message_life(run, "p1", 1), Console(file=output, width=width))
    return output.getvalue()


def find_rows(text: str) -> list[list[str]]:
    """The cells of the table's rows."""
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]


def test_the_first_line_says_what_became_of_it(tmp_path: Path) -> None:
    assert show(plant(tmp_path / "run")).splitlines()[0] == (
        "p1/1 was attempted twice and was acknowledged after 2.0 s at 22:13:22.000, stored once in main, "
        "delivered twice to `audit`; judging found `delivered_twice` (legal)."
    )


def test_every_event_has_its_time_offset_place_position_and_details(tmp_path: Path) -> None:
    assert find_rows(show(plant(tmp_path / "run"))) == [
        ["22:13:20.000", "+1.000 s", "sent", "main", "", "attempt 1 of 2, epoch 0; 4.0 ms after its schedule"],
        ["22:13:20.000", "+1.000 s", "stored", "main", "5:7", ""],
        ["–", "–", "outcome unknown", "main", "", "attempt 1 of 2; [bold]timeout"],
        ["22:13:21.000", "+2.000 s", "fault effective", "b-1", "", "eu_killed (kill); e"],
        ["22:13:22.000", "+3.000 s", "sent", "main", "", "attempt 2 of 2, epoch 1"],
        ["22:13:22.000", "+3.000 s", "acked", "main", "", "attempt 2 of 2; the ack named no position"],
        ["22:13:23.000", "+4.000 s", "delivered", "main / audit / consumer-0", "5:7", "no ack of it was confirmed"],
        [
            *("22:13:24.000", "+5.000 s", "delivered", "main / audit / consumer-0 (incarnation 1)", "5:7"),
            "redelivery 1; replicated from other",
        ],
        ["22:13:24.000", "+5.000 s", "ack confirmed", "main / audit / consumer-0 (incarnation 1)", "5:7", ""],
    ]


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("apart_us", [SECOND, 24 * HOUR], ids=["one day", "two days"])
def test_no_line_is_longer_than_the_terminal_and_no_word_is_cut(tmp_path: Path, width: int, apart_us: int) -> None:
    run = plant(tmp_path / "run", facts={"clock_error_us": 2500}, apart_us=apart_us)
    narrow, wide = show(run, width=width), show(run, width=400)
    assert max(map(len, narrow.splitlines())) <= width
    words, found = (set(re.split(r"[\s│;,]+", text)) for text in (wide, narrow))
    headers = {word for word in words if not re.search(r"\w", word)} | {
        "event",
        "where",
        "position",
        "details",
        "offset",
    }
    assert words - headers
    assert words - headers <= found


def test_on_80_columns_each_event_has_its_time_and_below_it_the_rest(tmp_path: Path) -> None:
    lines = show(plant(tmp_path / "run"), width=80).splitlines()
    at = lines.index("persistent://mytenant/eu/orders, 2023-11-14 UTC")
    assert [line.rstrip() for line in lines[at + 1 : at + 9]] == [
        "22:13:20.000  +1.000 s  sent",
        "    main; attempt 1 of 2, epoch 0; 4.0 ms after its schedule",
        "22:13:20.000  +1.000 s  stored",
        "    main; position 5:7",
        "–                    –  outcome unknown",
        "    main; attempt 1 of 2; [bold]timeout",
        "22:13:21.000  +2.000 s  fault effective",
        "    b-1; eu_killed (kill); e",
    ]


def test_what_surrounds_the_table(tmp_path: Path) -> None:
    text = show(plant(tmp_path / "run", facts={"clock_error_us": 2500}), width=400)

    assert "2023-11-14 UTC" in text
    assert "persistent://mytenant/eu/orders" in text
    for line in (
        "delivered_twice, legal, at main, audit: Such a message was delivered again from the same position before an "
        "earlier delivery's ack was confirmed. This one: delivered again (a_cause).",
        "in force meanwhile: eu_killed, kill b-1: injecting 22:13:19.000 (+0.000 s), effective 22:13:21.000 "
        "(+2.000 s), never recovered",
        "A stored copy has no time of its own: its time is the earliest at which it can have been written.",
        "Offsets count from the run's first fault, injected at 22:13:19.000.",
        "The clocks may be apart by 2.5 ms: the order of events that are nearer to each other is not proven.",
        "The run was recorded before there were seals, so nothing says whether its tables are as they were.",
    ):
        assert line in text.splitlines()


def test_without_faults_there_are_no_offsets(tmp_path: Path) -> None:
    run = History().clean().write(tmp_path / "run")
    text = show(run)
    assert "offset" not in text
    assert "What judging found is not known: nothing was judged" in text


def test_that_no_fault_was_in_force_is_said(tmp_path: Path) -> None:
    history = History(faults=[KILL]).clean()
    history.faults.append({"fault": "late", "kind": "kill", "targets": [], "state": "injecting", "at": START + HOUR})
    assert "No fault was in force during its life." in show(history.write(tmp_path / "run")).splitlines()


def test_a_life_of_two_days_has_the_day_in_each_row(tmp_path: Path) -> None:
    rows = find_rows(show(plant(tmp_path / "run", apart_us=24 * HOUR)))
    assert (rows[0][0], rows[-1][0]) == ("2023-11-14 22:13:20.000", "2023-11-15 22:13:23.000")


def test_a_partition_is_named_and_two_of_them_stand_in_each_row(tmp_path: Path) -> None:
    history = History().clean(partition=2)
    assert "persistent://mytenant/eu/orders, partition 2" in show(history.write(tmp_path / "one"))
    history.store(producer="p1", seq=1, partition=3, offset=9)
    rows = find_rows(show(history.write(tmp_path / "two")))
    assert "main / persistent://mytenant/eu/orders, partition 3" in [row[2] for row in rows]


# The command


def test_explain_prints_the_life(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", plant(tmp_path / "run").directory, "p1", "1"]) == 0
    assert capsys.readouterr().out.startswith("p1/1 was attempted twice")


def test_json_is_one_value_that_is_the_life(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = plant(tmp_path / "run")
    assert main(["explain", run.directory, "p1", "1", "--json"]) == 0
    output = capsys.readouterr().out
    assert MessageLife.model_validate_json(output) == read_message_life(run, "p1", 1)


def test_explain_takes_a_url(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, memory = plant(tmp_path / "run"), fsspec.filesystem("memory")
    memory.put(run.directory, "/runs/r1", recursive=True)
    try:
        assert main(["explain", "memory://runs/r1/", "p1", "1", "--json"]) == 0
    finally:
        memory.rm("/runs", recursive=True)
    assert MessageLife.model_validate_json(capsys.readouterr().out) == read_message_life(run, "p1", 1)


def test_missing_evidence_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = History().clean().write(tmp_path / "run")
    assert main(["explain", run.directory, "p1", "1"]) == 2
    assert "What judging found is not known" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("place", "producer", "seq", "said"),
    [
        ("run", "p11", "1", "the run has no producer `p11` (did you mean `p1`?)"),
        ("run", "p1", "2", "`p1` has no message 2 (give one from 1 to 1)"),
        ("run", "p1", "first", "SEQ: `first` is no seq (give a whole number from 0 on)"),
        ("run", "p1", "9" * 5000, "is no seq (give a whole number from 0 on)"),
        ("nowhere", "p1", "1", "holds no run (give a run's id, its directory or the directory's URL"),
        ("x" * 5000, "p1", "1", "holds no run (give a run's id, its directory or the directory's URL"),
        ("memory://nowhere", "p1", "1", "holds no run (give a run's id, its directory or the directory's URL"),
        ("nonsense://run", "p1", "1", "cannot be read: "),
    ],
)
def test_what_is_not_there_exits_with_3(
    tmp_path: Path, place: str, producer: str, seq: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(tmp_path / "run")
    location = place if "://" in place else str(tmp_path / place)
    assert main(["explain", location, producer, seq, "--json"]) == 3
    output = capsys.readouterr()
    assert said in " ".join(output.err.split())
    assert json.loads(output.out).keys() == {"error"}


def test_help_teaches_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert "brokerproof explain RUN mycluster-p0 4711" in build_parser().format_help()
    with pytest.raises(SystemExit):
        build_parser().parse_args(["explain", "--help"])
    output = capsys.readouterr().out
    assert "brokerproof explain RUN mycluster-p0 4711 --json" in output
    assert "exit status: 0 all that is recorded" in output


# The page


def test_the_page_has_every_event_what_judging_found_and_what_is_missing(tmp_path: Path) -> None:
    history = History()
    history.message("<p0>", 0)
    run = history.write(tmp_path / "run")
    leave_judgement(
        run,
        places=[place("<p0>", 0), place("<p0>", 0, subscription="audit")],
        anomalies=[anomaly(Anomaly.STORED_TWICE, "<p0>", 0, legal=False)],
    )
    life = read_message_life(run, "<p0>", 0)
    html = render_message_page(life, Page(root="../../../../"))
    for event in ("sent", "acked", "stored", "delivered", "ack confirmed"):
        assert f'<th scope="row">{event}</th>' in html
    assert 'class="anomaly anomaly-illegal"' in html
    assert "<p0>" not in html
    (tmp_path / "run/tables/stored").rename(tmp_path / "away")
    html = render_message_page(read_message_life(run, "<p0>", 0), Page())
    assert '<p class="problem" role="status">The table stored is missing' in html
