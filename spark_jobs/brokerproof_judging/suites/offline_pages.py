"""Makes the pages of Great Expectations readable without any other host.

As the library builds them, they load scripts and styles from nine hosts, and the index is blank without these. This
module removes all references to other hosts and all scripts, adds a small style sheet, and writes the index anew as
plain links.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

_STYLE = (Path(__file__).parent / "offline_pages.css").read_text(encoding="utf-8")
_ELSEWHERE = r"(?:https?:)?//"
# Every script is removed, because the scripts on a page need those of other hosts.
_SCRIPTS = re.compile(r"<script\b.*?</script>", re.DOTALL | re.IGNORECASE)
_LINKS = re.compile(rf"<link\b[^>]*\bhref=\"{_ELSEWHERE}[^>]*>", re.IGNORECASE)
_IMAGES = re.compile(rf"<img\b[^>]*\bsrc=\"{_ELSEWHERE}[^>]*>", re.IGNORECASE | re.DOTALL)
_FRAMES = re.compile(r"<iframe\b.*?</iframe>", re.DOTALL | re.IGNORECASE)
_CSS_ADDRESSES = re.compile(rf"url\(\s*['\"]?{_ELSEWHERE}[^)]*\)", re.IGNORECASE)
_IMPORTS = re.compile(rf"@import\s+(?:url\()?['\"]?{_ELSEWHERE}[^;]*;", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class ValidationPage:
    """A page about the result of one suite. `path` is relative to the site."""

    suite: str
    success: bool
    path: str


def make_offline(site: Path, title: str, pages: Sequence[ValidationPage]) -> None:
    """Rewrite every page of a site, and its index as links to `pages`. `title` names the run and its scenario."""
    for file in site.rglob("*.html"):
        file.write_text(rewrite_page(file.read_text(encoding="utf-8"), title), encoding="utf-8")
    (site / "index.html").write_text(_write_index(title, pages), encoding="utf-8")


def rewrite_page(html: str, title: str) -> str:
    """Return a page that loads nothing from other hosts. Links that a reader may click stay."""
    for pattern in (_SCRIPTS, _FRAMES, _LINKS, _IMAGES, _IMPORTS):
        html = pattern.sub("", html)
    html = _CSS_ADDRESSES.sub("none", html)
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
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
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
