"""The colours, signs and words of verdicts, for pages, pictures and terminals.

The colours are Okabe and Ito's, which people with red-green blindness can distinguish. The signs need no colour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from brokerproof.experiment.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class VerdictStyle:
    """How a verdict looks: a word, a sign of one character, and a colour for light and one for dark pages."""

    word: str
    sign: str
    light: str
    dark: str
    # The name of a style of the library rich.
    terminal: str


VERDICT_STYLES: Mapping[Verdict, VerdictStyle] = {
    Verdict.PASSED: VerdictStyle(word="passed", sign="✓", light="#00714f", dark="#3ddbab", terminal="green"),
    Verdict.FAILED: VerdictStyle(word="failed", sign="✗", light="#b13c00", dark="#ff9b68", terminal="red"),
    Verdict.UNKNOWN: VerdictStyle(word="unknown", sign="?", light="#7d5a00", dark="#f0c862", terminal="yellow"),
    Verdict.NO_DATA: VerdictStyle(word="no data", sign="∅", light="#5b5b66", dark="#b9b9c4", terminal="yellow"),
    Verdict.NOT_APPLICABLE: VerdictStyle(
        word="not applicable", sign="–", light="#5b5b66", dark="#b9b9c4", terminal="white"
    ),
}
