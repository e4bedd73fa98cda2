"""The files that `brokerproof report` writes about a run. A new file needs one line in `EXPORTS` and one function."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from brokerproof.machine.files import stage_object
from brokerproof.reports.badge import render_run_badge
from brokerproof.reports.junit import render_junit
from brokerproof.reports.latency_picture import PICTURE, draw_picture
from brokerproof.reports.pages import Page
from brokerproof.reports.run_json import render_run_json
from brokerproof.reports.run_page import render_run_page
from brokerproof.reports.run_report import read_run_report
from brokerproof.run.directory import RUN_REPORT, Run


def render_run_file(run: Run) -> str:
    """Return the run's page as one HTML file that needs no server.

    Raises RunError or InputError if its run.json cannot be used.
    """
    return render_run_page(read_run_report(run), Page(inline=True))


def write_run_file(run: Run) -> str:
    """Write the run's page into the run's directory, and a picture of the publish latencies if the outcome has them.

    Return the path of the page. Raises RunError or InputError if the run's run.json cannot be used, and MachineError if
    a file cannot be written.
    """
    report = read_run_report(run)
    run.write_text(RUN_REPORT, render_run_page(report, Page(inline=True)))
    if report.outcome.latency:
        run.write_text(PICTURE, draw_picture(report.outcome.latency, run.scenario.title))
    return run.path(RUN_REPORT)


# The function that makes the text of each file from a run.
EXPORTS: Mapping[str, Callable[[Run], str]] = {
    "report.html": render_run_file,
    "junit.xml": render_junit,
    "report.json": render_run_json,
    "badge.svg": render_run_badge,
}


def write_exports(run: Run, directory: str) -> dict[str, str]:
    """Write all files of `EXPORTS` into a directory, which is any fsspec location. Return {file name: location}.

    All texts are made before the first file is written. Raises RunError or InputError if the run's run.json cannot be
    used, and MachineError if a file cannot be written.
    """
    texts = {name: render(run) for name, render in EXPORTS.items()}
    locations = {name: f"{directory.rstrip('/')}/{name}" for name in texts}
    for name, text in texts.items():
        with stage_object(locations[name], "wb") as file:
            file.write(text.encode("utf-8"))
    return locations
