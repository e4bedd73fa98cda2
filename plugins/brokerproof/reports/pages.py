"""Pages as text: the templates of templates/, filled with what reports read.

A page is either served, and then takes its styles and scripts from beside it, or a file of its own, which carries them.
No page asks another host for anything.
"""

from __future__ import annotations

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
from brokerproof.experiment.verdict import Verdict
from brokerproof.reports.verdict_style import VERDICT_STYLES
from brokerproof.results.numbers import format_count, format_seconds

_HERE = Path(__file__).resolve().parent
STATIC = _HERE / "static"
# How pages say whether a difference is larger than noise; None where too few runs tell.
NOISE_WORDS = {True: "more than noise", False: "within noise", None: "nobody knows"}


@dataclass(frozen=True, kw_only=True)
class Page:
    """Where a page finds what it needs. `root` is the way from the page to the overview, as `../../`."""

    root: str = ""
    # Whether it is a file of its own.
    inline: bool = False
    # Whether it has charts.
    draws: bool = True
    # Which entry of the navigation it is.
    here: str = ""

    @property
    def verdict_css(self) -> str:
        """The colours of the verdicts, as a style sheet."""
        return make_verdict_css()

    def read_static(self, name: str) -> str:
        """A style or script of the page's own."""
        return (STATIC / name).read_text(encoding="utf-8")

    def read_plotly(self) -> str:
        """Plotly's script."""
        return find_plotly().read_text(encoding="utf-8")


def render(template: str, page: Page, values: Mapping[str, Any]) -> str:
    """A page of a template. Raises jinja2.TemplateError where a value is missing."""
    return _make_environment().get_template(template).render(page=page, **values)


@lru_cache
def find_plotly() -> Path:
    """Plotly's script as its package ships it. Raises MachineError where the package is not installed."""
    spec = find_spec("plotly")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        script = Path(place) / "package_data" / "plotly.min.js"
        if script.exists():
            return script
    raise MachineError("the package plotly is not installed, or without its script: install requirements.txt")


@lru_cache
def make_verdict_css() -> str:
    """A style sheet with the colours of VERDICT_STYLES, for light and for dark pages."""
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
    """The style of a verdict with its `name`, or one field of it."""
    style = VERDICT_STYLES[Verdict(verdict)]
    return getattr(style, field) if field else {**vars(style), "name": _to_name(Verdict(verdict))}


def _to_name(verdict: Verdict) -> str:
    return str(verdict).replace("_", "-")


@pass_eval_context
def _to_json_in_script(context: EvalContext, value: Any) -> Markup:
    """JSON that may stand in a script element, whatever texts it holds."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
