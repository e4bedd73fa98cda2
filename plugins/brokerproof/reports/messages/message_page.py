"""The page of one message, which shows its life."""

from __future__ import annotations

from brokerproof.reports.messages.message_life import MessageLife
from brokerproof.reports.messages.message_life_rows import (
    describe_anomaly,
    describe_fault,
    list_remarks,
    tabulate_events,
)
from brokerproof.reports.pages import Page, render


def render_message_page(life: MessageLife, page: Page) -> str:
    anomalies = life.judged.anomalies if life.judged else ()
    return render(
        "message.html.j2",
        page,
        {
            "life": life,
            "events": tabulate_events(life),
            "anomalies": [(str(anomaly.ruling), describe_anomaly(anomaly)) for anomaly in anomalies],
            "faults": [describe_fault(course, life) for course in life.faults],
            "remarks": list(list_remarks(life)),
        },
    )
