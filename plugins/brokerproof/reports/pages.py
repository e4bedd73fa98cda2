"""Renders HTML pages from the templates in templates/.

A served page loads its styles and scripts from the server that sent it. An inline page is one file that contains them.
Neither loads anything from another host, and a content security policy forbids it: the server's for a served page, and
the page's own for an inline one, which also names its scripts by their digests.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_eval_context
from jinja2.nodes import EvalContext
from markupsafe import Markup

from brokerproof.errors import MachineError
from brokerproof.experiment.numbers import format_count, format_seconds
from brokerproof.experiment.verdict import Verdict
from brokerproof.reports.verdict_style import VERDICT_STYLES

_HERE = Path(__file__).resolve().parent
STATIC = _HERE / "static"
# Words for whether a difference is larger than noise. None means that there are too few runs to decide.
NOISE_WORDS = {True: "more than noise", False: "within noise", None: "not known"}


@dataclass(frozen=True, kw_only=True)
class Page:
    """How one HTML page is shown. `root` is the relative path from the page to the overview, such as `../../`."""

    root: str = ""
    # Whether the page is one file that contains its styles and scripts.
    inline: bool = False
    # Whether the page has charts.
    draws: bool = True
    # The page's entry in the navigation.
    here: str = ""

    @property
    def verdict_css(self) -> str:
        return make_verdict_css()

    @property
    def scripts(self) -> tuple[str, ...]:
        """The scripts that an inline page contains."""
        return (find_plotly().read_text(encoding="utf-8"), self.read_static("charts.js")) if self.draws else ()

    @property
    def policy(self) -> str:
        """The content security policy of an inline page: no script but its own, and nothing from elsewhere.

        Plotly needs inline styles, and images of its own making. In a file, `frame-ancestors` has no effect.
        """
        sources = " ".join(f"'sha256-{_digest(script)}'" for script in self.scripts) or "'none'"
        return (
            f"default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; img-src data: blob:; "
            "object-src 'none'; base-uri 'none'; form-action 'none'"
        )

    def read_static(self, name: str) -> str:
        return (STATIC / name).read_text(encoding="utf-8")


def render(template: str, page: Page, values: Mapping[str, Any]) -> str:
    """Return a template filled with `values`, as HTML. Raises jinja2.TemplateError if a value is missing."""
    return _make_environment().get_template(template).render(page=page, **values)


@lru_cache
def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@lru_cache
def find_plotly() -> Path:
    """Return the path of Plotly's script. Raises MachineError if the package or its script is missing."""
    spec = find_spec("plotly")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        script = Path(place) / "package_data" / "plotly.min.js"
        if script.exists():
            return script
    raise MachineError("the package plotly is not installed, or without its script: install requirements.txt")


@lru_cache
def make_verdict_css() -> str:
    """Return a style sheet with the colours of VERDICT_STYLES, for light and for dark pages."""
    light = "".join(f"--verdict-{_to_name(verdict)}: {style.light}; " for verdict, style in VERDICT_STYLES.items())
    dark = "".join(f"--verdict-{_to_name(verdict)}: {style.dark}; " for verdict, style in VERDICT_STYLES.items())
    rules = "".join(
        f".verdict-{_to_name(verdict)} {{ color: var(--verdict-{_to_name(verdict)}); }}\n"
        f".cell-{_to_name(verdict)} {{ background: var(--verdict-{_to_name(verdict)}); }}\n"
        for verdict in VERDICT_STYLES
    )
    return f":root {{ {light}}}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n{rules}"


@lru_cache
def _make_environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "style": _style,
        "count": format_count,
        "seconds": format_seconds,
        "json_in_script": _to_json_in_script,
    }
    return environment


def _style(verdict: str, field: str = "") -> Any:
    """Return the field `field` of a verdict's style.

    If `field` is empty, return {field: value} for all fields, with the verdict's name in CSS as another field, `name`.
    """
    style = VERDICT_STYLES[Verdict(verdict)]
    return getattr(style, field) if field else {**vars(style), "name": _to_name(Verdict(verdict))}


def _to_name(verdict: Verdict) -> str:
    return str(verdict).replace("_", "-")


@pass_eval_context
def _to_json_in_script(context: EvalContext, value: Any) -> Markup:
    """Return `value` as JSON that is safe inside a script element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
