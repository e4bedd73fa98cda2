"""SQL of users' suites: attempts to reach more than a run's table, queries that must stay possible, and mutants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from hypothesis import strategies as st

_TABLES = Path(__file__).resolve().parents[1] / "unit" / "suites"
# {SQL: what its refusal names}
ATTEMPTS: Mapping[str, str] = dict(
    line.rsplit(" => ", 1) for line in (_TABLES / "attempts.txt").read_text(encoding="utf-8").splitlines()
)
# Spark can plan each on the table `messages`.
QUERIES = (_TABLES / "queries.txt").read_text(encoding="utf-8").splitlines()

_WORDS = [re.findall(r"\{\w+\}|'[^']*'|`[^`]*`|\w+|\s+|--|/\*\+?|\*/|.", query) for query in [*ATTEMPTS, *QUERIES]]
# Text with which two parsers may disagree about what follows.
_SPLITTERS = [
    *("/*", "*/", "/*+", "--", "\n", "\\\n", "'", '"', "`", ";", ".", "(", ")", ",", "//", "#", "$$", "@", "::", "|>"),
    *("r'", "e'", "\\'", "''", "\0", "\t", "\r", "\u00a0", "\u0130", "\u2028", "\u3000", "{{#", "#}}", "{{%", "%}}"),
    *("{batch}", "text.`/x`", "reflect('a', 'b')", "${{env:HOME}}", "IDENTIFIER('x')", "USING 'cat'", "FROM", "TABLE"),
    *("MAP", "STREAM", "AS", "user", "secrets", "WITH a AS (SELECT 1)", "LATERAL VIEW", "VERSION AS OF 1", "1e", "0x"),
    "/* sqlglot.anonymous */",
]


@st.composite
def mutate_queries(draw: st.DrawFn) -> str:
    """Make SQL from a query or an attempt: words are left out, put in, taken from another one, or in the other case."""
    words = list(draw(st.sampled_from(_WORDS)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(words)))
        change = draw(st.sampled_from(("put in", "leave out", "swap case", "splice", "end as another")))
        if change == "put in":
            words.insert(place, draw(st.sampled_from(_SPLITTERS)))
        elif change == "leave out":
            del words[place : place + 1]
        elif change == "swap case":
            words[place : place + 1] = [word.swapcase() for word in words[place : place + 1]]
        else:
            other = draw(st.sampled_from(_WORDS))
            begin = draw(st.integers(0, len(other) - 1))
            end = begin + draw(st.integers(1, 8)) if change == "splice" else len(other)
            words[place : place if change == "splice" else len(words)] = other[begin:end]
    return "".join(words)
