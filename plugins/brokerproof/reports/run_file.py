"""The report of a run as one HTML file that needs no server: to mail, to keep with a build, to open in ten years."""

from __future__ import annotations

from brokerproof.reports.latency_picture import PICTURE, draw_picture
from brokerproof.reports.pages import Page
from brokerproof.reports.run_page import render_run_page
from brokerproof.reports.run_report import read_run_report
from brokerproof.run.directory import RUN_REPORT, Run


def write_run_file(run: Run) -> str:
    """Write the file, and the picture of the publish latencies if the run has any. Return the path of the file.

    Raises RunError or InputError if the run's run.json cannot be used, and MachineError if the file cannot be written.
    """
    report = read_run_report(run)
    run.write_text(RUN_REPORT, render_run_page(report, Page(inline=True)))
    if report.outcome.latency:
        run.write_text(PICTURE, draw_picture(report.outcome.latency, run.scenario.title))
    return run.path(RUN_REPORT)


def render_run_file(run: Run) -> str:
    """Return the text of the file. Raises RunError or InputError if the run's run.json cannot be used."""
    return render_run_page(read_run_report(run), Page(inline=True))
