"""The pages that Great Expectations builds about its validations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fsspec
from brokerproof.run.directory import Run

from brokerproof_judging.suites.answers import shorten_error
from brokerproof_judging.suites.library import Library
from brokerproof_judging.suites.offline_pages import ValidationPage, make_offline


def publish_data_docs(library: Library, site: str, run: Run) -> dict[str, str]:
    """Build the pages in the directory `site`, and copy them to the run's directory, any fsspec location.

    Returns their location as `data_docs`, or the reason why there are none as `data_docs_error`.
    """
    try:
        library.build_data_docs()
        make_offline(Path(site), f"{run.scenario.name}, run {run.run_id}", list(_list_pages(library, Path(site))))
        filesystem, target = fsspec.url_to_fs(run.path("report", "data_docs"))
        if filesystem.exists(target):
            filesystem.rm(target, recursive=True)
        filesystem.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
        filesystem.put(f"{site}/", f"{target}/", recursive=True)
        if not run.exists("report", "data_docs", "index.html"):
            return {"data_docs_error": "Great Expectations built no index page"}
    except Exception as error:
        return {"data_docs_error": shorten_error(f"{type(error).__name__}: {error}")}
    return {"data_docs": locate_data_docs(run)}


def _list_pages(library: Library, site: Path) -> Iterator[ValidationPage]:
    """Yield the pages about the validations. The library puts each page below the name of its suite."""
    for title, success in library.validated.items():
        for file in sorted((site / "validations" / title).rglob("*.html")):
            yield ValidationPage(suite=title, success=success, path=str(file.relative_to(site)))


def locate_data_docs(run: Run) -> str:
    """Return the location of the first page of the run's Data Docs."""
    return run.path("report", "data_docs", "index.html")
