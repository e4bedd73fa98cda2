"""Finds words that make a sentence hard to read, with a remedy for each: `python tools/prose_check.py [PATH …]`.

It reads the comments and docstrings of Python, the comments of SQL, and the text of Markdown outside code. The exit
status is 1 if it finds any. `make lint` runs it over the product, its tools and its pages.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEFAULT = ("plugins", "spark_jobs", "tools", "dags", "docs", "README.md", "CHANGELOG.md")

# A pattern of a phrase, and what to write instead. Case does not matter, and a space is any white space.
REMEDIES = {
    r"nobody|no one": "name who is absent: `no node answered`",
    r"(nothing|none|what|much|little) of (it|them|this|that|what)": "name the thing and what is true of it",
    r"(takes?|took|knows?|knew|says?|said|claims?|proves?|left|leaves?) nothing": "say what is true instead",
    r"whoever|whomever": "name the person or the part: `the user`, `the caller`",
    r"whatever|wherever|however (long|many|much)": "name the cases: `if …`, `every …`",
    r"as good as": "say `counts as`, or what is the same",
    r"among (it|them|these|those)": "say `including …`, or begin another sentence",
    r"besides": "say `also`, or name the second thing",
    r"(so|as) (long|many|much|few|often)(?! as)": "write the number, or the name of the constant",
    r"raises \w+ where": "`where` is a place: write `if`",
    r"(none|null|empty|false|true|0|unknown|nothing) where": "`where` is a place: write `if`",
    r"where (there (is|are|was|were)|nothing|no|none|neither)": "`where` is a place: write `if`",
    r"of which|about which": "make it two sentences",
    r"(which|that) is (said|told|named)": "say who says it, and where",
    r"is (called|named) like": "say `has the same name as`",
    r"stands? (in|for|below|above|beside)": "say `is`",
    r"comes? to (nothing|what|something)": "say what the result is",
    r"what (becomes|became) of": "say `what happened to`",
    r"no more than that|nothing else than": "say `only`",
    r"there is any": "name the thing",
}
_PHRASES = [
    (re.compile(r"\b(?:" + pattern.replace(" ", r"\s+") + r")(?!\w)", re.IGNORECASE), remedy)
    for pattern, remedy in REMEDIES.items()
]
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->", re.DOTALL)


def find_phrases(path: Path) -> Iterator[str]:
    """Yield `FILE:LINE: phrase: remedy` for each phrase of a file that has one of `REMEDIES`."""
    for first_line, text in _READERS[path.suffix](path.read_text(encoding="utf-8")):
        prose = _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
        for phrase, remedy in _PHRASES:
            for match in phrase.finditer(prose):
                line = first_line + prose.count("\n", 0, match.start())
                yield f"{path}:{line}: {' '.join(match[0].split())}: {remedy}"


def _read_python(source: str) -> Iterator[tuple[int, str]]:
    """(first line, text) of each docstring and of each block of comments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=False)
            if text is not None:
                yield node.body[0].lineno, text
    comments = [
        (token.start[0], token.string)
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    yield from _join_comments(comments, "#")


def _read_sql(source: str) -> Iterator[tuple[int, str]]:
    lines = enumerate(source.splitlines(), start=1)
    yield from _join_comments([(number, line[line.index("--") :]) for number, line in lines if "--" in line], "--")


def _join_comments(comments: Sequence[tuple[int, str]], mark: str) -> Iterator[tuple[int, str]]:
    """Blocks of comments on successive lines, because a phrase may go on in the next line."""
    block: list[str] = []
    numbers = {number for number, _ in comments}
    for number, text in comments:
        block.append(text.removeprefix(mark))
        if number + 1 not in numbers:
            yield number - len(block) + 1, "\n".join(block)
            block = []


def _read_markdown(source: str) -> Iterator[tuple[int, str]]:
    yield 1, _FENCE.sub(lambda fence: re.sub(r"[^\n]", " ", fence[0]), source)


_READERS = {".py": _read_python, ".sql": _read_sql, ".md": _read_markdown}


def main(arguments: Sequence[str]) -> int:
    """Check the files below the given paths, or below those of the product."""
    given = [Path(each) for each in arguments] or [ROOT / name for name in DEFAULT]
    files = [file for path in given for file in ([path] if path.is_file() else sorted(path.rglob("*")))]
    found = [phrase for file in files if file.suffix in _READERS for phrase in find_phrases(file)]
    print("\n".join(found), file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
