"""Renders Great Expectations' pages so that every text in them stays text.

Great Expectations writes descriptions, samples of rows, observed values, names of columns, suites and runs, and errors
into its pages as HTML. A run or a suite from elsewhere could write elements and scripts so. Here, the templates escape
each text that is not marked as HTML, and only what the templates and these methods have written themselves is marked.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from great_expectations.render.view.view import DefaultJinjaPageView
from jinja2 import pass_context
from markupsafe import Markup


class EscapingPageView(DefaultJinjaPageView):
    """Great Expectations' view of a page, with the texts escaped. The library makes the object from a configuration."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.env.autoescape = True

    @pass_context
    def render_content_block(
        self,
        context: Any,
        block: Any,
        index: Any = None,
        content_block_id: Any = None,
        render_to_markdown: bool = False,
    ) -> Any:
        """Return a block as HTML: a template's if it is of a known kind, else its text."""
        if isinstance(block, list):
            rendered = (
                self.render_content_block(context, one, number, content_block_id and f"{content_block_id}-{number}")
                if isinstance(one, dict) and "content_block_type" in one
                else Markup("<span>{}</span>").format(str(one))
                for number, one in enumerate(block)
            )
            return Markup("").join(rendered)
        rendered = super().render_content_block(context, block, index, content_block_id, render_to_markdown)
        return Markup(rendered) if isinstance(block, dict) and isinstance(rendered, str) else rendered

    def render_string_template(self, template: Any) -> Any:
        """Return a text with parameters as HTML. The library escapes only parameters, and only if they are strings."""
        if not isinstance(template, dict):
            return template
        escaped = {**template, "template": html.escape(str(template.get("template", "")), quote=False)}
        if isinstance(tooltip := template.get("tooltip"), dict):
            escaped["tooltip"] = {**tooltip, "content": html.escape(str(tooltip.get("content", "")))}
        return Markup(super().render_string_template(escaped))

    @staticmethod
    def _escape_template_param_value(value: Any) -> str:
        return html.escape(str(value), quote=False)

    def render_styling(self, styling: Mapping[str, Any]) -> Markup:
        attributes = {name: html.escape(str(value)) for name, value in (styling.get("attributes") or {}).items()}
        return Markup(super().render_styling({**styling, **({"attributes": attributes} if attributes else {})}))

    def attributes_dict_to_html_string(self, attributes_dict: Mapping[str, Any], prefix: str = "") -> Markup:
        escaped = {name: html.escape(str(value)) for name, value in attributes_dict.items()}
        return Markup(super().attributes_dict_to_html_string(escaped, prefix))

    def render_markdown(self, markdown: str) -> Markup:
        """Return a note as HTML. The library's parser makes text of the elements in it."""
        return Markup(super().render_markdown(markdown))
