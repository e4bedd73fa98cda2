"""Finds words that make a sentence hard to read, with a remedy for each: `python tools/prose_check.py [PATH …]`.

The check reads the comments, docstrings and messages of Python, the comments of SQL, the text of pages and Markdown
outside code, and whole files of YAML and JSON. The exit status is 1 if a word was found. `make lint` checks the
product, its scenarios, its tools and its pages.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

from brokerproof.bounded_reading import load_yaml

ROOT = Path(__file__).resolve().parents[1]
DEFAULT = ("plugins", "spark_jobs", "dags", "topologies", "expectations", "tools", "docs", "README.md", "CHANGELOG.md")

_LIST = ROOT / "tools" / "hard_phrases.yaml"
REMEDIES: dict[str, str] = load_yaml(_LIST.read_text(encoding="utf-8"))
_PHRASES = [
    (re.compile(r"\b(?:" + pattern.replace(" ", r"\s+") + r")(?!\w)", re.IGNORECASE), remedy)
    for pattern, remedy in REMEDIES.items()
]
# A string with fewer words is no message to people.
_MESSAGE_WORDS = 3
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_MARKUP = re.compile(r"<style.*?</style>|<script.*?</script>|\{%.*?%\}|\{\{.*?\}\}|<[^>]*>", re.DOTALL)
_CODE = re.compile(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->", re.DOTALL)


def find_phrases(path: Path) -> Iterator[str]:
    """Yield `FILE:LINE: phrase: remedy` for each phrase of `REMEDIES` in a file."""
    for first_line, text in _READERS[path.suffix](path.read_text(encoding="utf-8")):
        prose = _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
        for phrase, remedy in _PHRASES:
            for match in phrase.finditer(prose):
                line = first_line + prose.count("\n", 0, match.start())
                yield f"{path}:{line}: {' '.join(match[0].split())}: {remedy}"


def _read_python(source: str) -> Iterator[tuple[int, str]]:
    """Yield (first line, text) of each docstring, message and block of comments."""
    parents = {child: node for node in ast.walk(ast.parse(source)) for child in ast.iter_child_nodes(node)}
    for node, parent in parents.items():
        text = _join_parts(node)
        if text is not None and not isinstance(parent, ast.JoinedStr) and len(text.split()) >= _MESSAGE_WORDS:
            yield node.lineno, text  # type: ignore[attr-defined]
    comments = [
        (token.start[0], token.string)
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    yield from _join_comments(comments, "#")


def _join_parts(node: ast.AST) -> str | None:
    """Return the text of a string literal, with `x` for each value of an f-string; None for other nodes."""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "`x`" for part in node.values)  # type: ignore[misc]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _read_sql(source: str) -> Iterator[tuple[int, str]]:
    lines = enumerate(source.splitlines(), start=1)
    yield from _join_comments([(number, line[line.index("--") :]) for number, line in lines if "--" in line], "--")


def _join_comments(comments: Sequence[tuple[int, str]], mark: str) -> Iterator[tuple[int, str]]:
    """Yield (first line, text) of each block of successive comments, because a phrase may go on in the next line."""
    block: list[str] = []
    numbers = {number for number, _ in comments}
    for number, text in comments:
        block.append(text.removeprefix(mark))
        if number + 1 not in numbers:
            yield number - len(block) + 1, "\n".join(block)
            block = []


def _read_markdown(source: str) -> Iterator[tuple[int, str]]:
    yield 1, _FENCE.sub(lambda fence: re.sub(r"[^\n]", " ", fence[0]), source)


def _read_all(source: str) -> Iterator[tuple[int, str]]:
    yield 1, source


def _read_page(source: str) -> Iterator[tuple[int, str]]:
    yield 1, _MARKUP.sub(lambda markup: re.sub(r"[^\n]", " ", markup[0]), source)


_READERS = {
    ".py": _read_python,
    ".sql": _read_sql,
    ".md": _read_markdown,
    ".j2": _read_page,
    ".yaml": _read_all,
    ".json": _read_all,
}


def main(arguments: Sequence[str]) -> int:
    """Check the files below the given paths, or below `DEFAULT`. Return 1 if a phrase was found, else 0."""
    given = [Path(each) for each in arguments] or [ROOT / name for name in DEFAULT]
    files = [file for path in given for file in ([path] if path.is_file() else sorted(path.rglob("*")))]
    found = [phrase for file in files if file.suffix in _READERS and file != _LIST for phrase in find_phrases(file)]
    print("\n".join(found), file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
