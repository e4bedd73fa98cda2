"""Rewrites Great Expectations' pages about its validations, so that they are readable without access to other hosts.

The pages load scripts and styles from nine hosts, and the index is blank without these. So all scripts, and all
references that load from other hosts, are removed. A small style sheet is added, and the index becomes plain links.
Each page has a content security policy that allows no script and nothing from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import fsspec
from brokerproof.run.directory import Run

from brokerproof_judging.suites.expectation_answers import shorten_error
from brokerproof_judging.suites.library import Library

_STYLE = (Path(__file__).parent / "data_docs.css").read_text(encoding="utf-8")
_ELSEWHERE = r"(?:https?:)?//"
# Every script is removed, because the scripts on a page need those of other hosts.
_SCRIPTS = re.compile(r"<script\b.*?</script>", re.DOTALL | re.IGNORECASE)
_LINKS = re.compile(r"<link\b[^>]*>", re.IGNORECASE)
_IMAGES = re.compile(rf"<img\b[^>]*\bsrc=\"{_ELSEWHERE}[^>]*>", re.IGNORECASE | re.DOTALL)
_FRAMES = re.compile(r"<iframe\b.*?</iframe>", re.DOTALL | re.IGNORECASE)
_CSS_ADDRESSES = re.compile(rf"url\(\s*['\"]?{_ELSEWHERE}[^)]*\)", re.IGNORECASE)
# An element's start with an attribute that is a script. In text, `<` is escaped.
_HANDLERS = re.compile(r"(<[a-z][^<>]*?)\son[a-z]+\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s\"'>]+)", re.IGNORECASE)
_IMPORTS = re.compile(rf"@import\s+(?:url\()?['\"]?{_ELSEWHERE}[^;]*;", re.IGNORECASE)


_POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
    "img-src data:; object-src 'none'; base-uri 'none'; form-action 'none'\">"
)


@dataclass(frozen=True, kw_only=True)
class ValidationPage:
    """A page about the result of one suite. `path` is relative to the site."""

    suite: str
    success: bool
    path: str


def make_offline(site: Path, title: str, pages: Sequence[ValidationPage]) -> None:
    """Rewrite every page of a site, and replace its index by links to `pages`. `title` names run and scenario."""
    for file in site.rglob("*.html"):
        file.write_text(rewrite_page(file.read_text(encoding="utf-8"), title), encoding="utf-8")
    (site / "index.html").write_text(_write_index(title, pages), encoding="utf-8")


def rewrite_page(html: str, title: str) -> str:
    """Return a page that loads nothing from other hosts. Links that a reader may click stay."""
    for pattern in (_SCRIPTS, _FRAMES, _LINKS, _IMAGES, _IMPORTS):
        html = pattern.sub("", html)
    while (without := _HANDLERS.sub(r"\1", html)) != html:
        html = without
    html = _CSS_ADDRESSES.sub("none", html)
    # Policies apply to what follows them.
    html = html.replace("<head>", f"<head>{_POLICY}", 1)
    html = re.sub(r"<title>.*?</title>", f"<title>{escape(title)}</title>", html, count=1, flags=re.DOTALL)
    return html.replace("</head>", f"<style>\n{_STYLE}</style>\n</head>", 1)


def _write_index(title: str, pages: Sequence[ValidationPage]) -> str:
    rows = "\n".join(
        f'<tr><th scope="row"><a href="{escape(page.path)}">{escape(page.suite)}</a></th>'
        f"<td>{'✓ succeeded' if page.success else '✗ failed'}</td>"
        f'<td><a href="expectations/{escape(page.suite)}.html">expectations</a></td></tr>'
        for page in pages
    )
    return f"""<!doctype html>
<html lang="en">
<head>{_POLICY}<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>
{_STYLE}</style></head>
<body><main class="container-fluid"><h1>{escape(title)}</h1>
<p>What Great Expectations validated. Whether a suite counts as passed is Brokerproof's own decision, which asks for
more. The report of the run has it.</p>
<table class="table">
<thead><tr><th scope="col">suite</th><th scope="col">Great Expectations says</th><th></th></tr></thead>
<tbody>
{rows}
</tbody></table></main></body></html>
"""


def publish_data_docs(library: Library, site: str, run: Run) -> dict[str, str]:
    """Build the pages in the directory `site`, and copy them to the run's directory, which may be any fsspec location.

    Returns {"data_docs": location}, or {"data_docs_error": reason} if there are no pages.
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
