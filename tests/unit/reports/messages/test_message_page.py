"""The page of one message."""

from __future__ import annotations

from pathlib import Path

from brokerproof.experiment.guarantees import Anomaly
from brokerproof.reports.messages.message_life import read_message_life
from brokerproof.reports.messages.message_view import render_message_page
from brokerproof.reports.pages import Page

from ...judging.history import History
from .planted_judgement import anomaly, leave_judgement, place


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
