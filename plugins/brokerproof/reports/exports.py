"""The files that `brokerproof report` writes about a run. A new file needs one line in `EXPORTS` and one function."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from brokerproof.machine.files import stage_object
from brokerproof.reports.badge import render_run_badge
from brokerproof.reports.junit import render_junit
from brokerproof.reports.run_file import render_run_file
from brokerproof.reports.run_json import render_run_json
from brokerproof.run.directory import Run

# By file name, the function that makes its text from a run.
EXPORTS: Mapping[str, Callable[[Run], str]] = {
    "report.html": render_run_file,
    "junit.xml": render_junit,
    "report.json": render_run_json,
    "badge.svg": render_run_badge,
}


def write_exports(run: Run, directory: str) -> dict[str, str]:
    """Write all files into a directory, which is any fsspec location. Return their locations by file name.

    If one of the texts cannot be made, no file is written. Raises RunError or InputError if the run's run.json cannot
    be used, and MachineError if a file cannot be written.
    """
    texts = {name: render(run) for name, render in EXPORTS.items()}
    locations = {name: f"{directory.rstrip('/')}/{name}" for name in texts}
    for name, text in texts.items():
        with stage_object(locations[name], "wb") as file:
            file.write(text.encode("utf-8"))
    return locations
