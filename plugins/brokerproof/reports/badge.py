"""A badge for a README or a wiki, with the result of one run or of all scenarios' last runs.

The badge is an SVG that needs no other file. Its colour and its words both show whether the result is as expected.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template
from xml.sax.saxutils import escape

from brokerproof.experiment.verdict import DECISIVE, Verdict
from brokerproof.reports.verdict_style import VERDICT_STYLES
from brokerproof.results.history import History
from brokerproof.results.run_outcome import compose_outcome
from brokerproof.run.directory import Run

# White text has a contrast of more than 4.5 on each of these colours.
LABEL = "#444444"
GREEN = VERDICT_STYLES[Verdict.PASSED].light
RED = VERDICT_STYLES[Verdict.FAILED].light
AMBER = VERDICT_STYLES[Verdict.UNKNOWN].light
GREY = VERDICT_STYLES[Verdict.NOT_APPLICABLE].light

_SUBJECT = "brokerproof"
_FONT_SIZE = 11
# Pixels to the left and right of a text.
_MARGIN = 6

_SVG = Template("""\
<svg xmlns="http://www.w3.org/2000/svg" width="$width" height="20" role="img" aria-label="$title">
<title>$title</title>
<clipPath id="round"><rect width="$width" height="20" rx="3"/></clipPath>
<g clip-path="url(#round)">
<rect width="$split" height="20" fill="$label_colour"/>
<rect x="$split" width="$rest" height="20" fill="$colour"/>
</g>
<g fill="#ffffff" font-family="DejaVu Sans,Verdana,Geneva,sans-serif" font-size="$size">
<text x="$margin" y="14" textLength="$subject_width">$subject</text>
<text x="$word_x" y="14" textLength="$word_width">$word</text>
</g>
</svg>
""")


@dataclass(frozen=True)
class _BadgeText:
    word: str
    colour: str


def render_run_badge(run: Run) -> str:
    """Return the badge of one run as SVG text. Raises RunError or InputError if the run's run.json cannot be used."""
    outcome = compose_outcome(run)
    return _draw(outcome.scenario, _describe_run(outcome.verdict, outcome.expected.verdict, met=outcome.met))


def render_history_badge(history: History, scenario: str | None = None) -> str:
    """Return the badge of the scenario's last run or, if `scenario` is None, of all scenarios' last runs, as SVG text.

    If no run is recorded, the badge says so. Raises HistoryError if the history cannot be read.
    """
    if scenario is None:
        return _draw("", _describe_all(history))
    runs = history.list_runs([scenario], limit=1)
    if not runs:
        return _draw(scenario, _BadgeText("no run", GREY))
    run = runs[0]
    return _draw(scenario, _describe_run(Verdict(run.verdict), Verdict(run.expected_verdict), met=run.met))


def _describe_run(verdict: Verdict, expected: Verdict, *, met: bool) -> _BadgeText:
    word = VERDICT_STYLES[verdict].word
    if met:
        return _BadgeText(word if verdict is Verdict.PASSED else f"{word} as expected", GREEN)
    if verdict is Verdict.PASSED or verdict is expected:
        word = f"{word}, not as expected"
    return _BadgeText(word, RED if verdict in DECISIVE else AMBER)


def _describe_all(history: History) -> _BadgeText:
    runs = history.list_last_runs()
    if not runs:
        return _BadgeText("no run", GREY)
    unmet = [run for run in runs if not run.met]
    word = f"{len(runs) - len(unmet)} of {len(runs)} as expected"
    if not unmet:
        return _BadgeText(word, GREEN)
    return _BadgeText(word, RED if any(run.verdict in DECISIVE for run in unmet) else AMBER)


def _draw(scenario: str, text: _BadgeText) -> str:
    subject = f"{_SUBJECT} {scenario}".rstrip()
    subject_width, word_width = _measure_text(subject), _measure_text(text.word)
    split = subject_width + 2 * _MARGIN
    return _SVG.substitute(
        title=escape(f"{subject}: {text.word}", {'"': "&quot;"}),
        subject=escape(subject),
        word=escape(text.word),
        label_colour=LABEL,
        colour=text.colour,
        size=_FONT_SIZE,
        margin=_MARGIN,
        split=split,
        rest=word_width + 2 * _MARGIN,
        width=split + word_width + 2 * _MARGIN,
        subject_width=subject_width,
        word_width=word_width,
        word_x=split + _MARGIN,
    )


@cache
def _measure_text(text: str) -> int:
    """Return a text's width in pixels in DejaVu Sans, which Matplotlib ships. The SVG fits any font to this width."""
    import matplotlib
    from matplotlib.ft2font import FT2Font

    font = FT2Font(str(Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")))
    # At 72 dots per inch, one point is one pixel.
    font.set_size(_FONT_SIZE, 72)
    font.set_text(text)
    # The unit of the width is 1/64 pixel.
    return -(-int(font.get_width_height()[0]) // 64)
