"""The report of a run as one file that needs nobody: to mail, to keep beside a build, to open in ten years."""

from __future__ import annotations

from brokerproof.reports.pages import Page
from brokerproof.reports.run_page import render_run_page
from brokerproof.reports.run_report import read_run_report
from brokerproof.run.directory import RUN_REPORT, Run


def write_run_file(run: Run) -> str:
    """Write the file and return its path.

    Raises RunError or InputError where the run's run.json cannot be used, and MachineError where the file cannot be
    written.
    """
    run.write_text(RUN_REPORT, render_run_file(run))
    return run.path(RUN_REPORT)


def render_run_file(run: Run) -> str:
    """The text of the file. Raises RunError or InputError where the run's run.json cannot be used."""
    return render_run_page(read_run_report(run), Page(inline=True))
