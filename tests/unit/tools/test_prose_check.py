"""The check of prose finds hard phrases where people read them, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
from prose_check import DEFAULT, REMEDIES, ROOT, find_phrases, main


def check(tmp_path: Path, name: str, text: str) -> list[str]:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return [found.removeprefix(f"{file}:") for found in find_phrases(file)]


REMEDY = REMEDIES["nobody|no one"]


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.py", '"""Nobody reads it."""\n', 1),
        ("a.py", 'def a():\n    """Return one.\n\n    Nobody reads it.\n    """\n', 4),
        ("a.py", "a = 1\n# Two lines, and nobody\n# reads them.\n", 2),
        ("a.py", 'def a(b):\n    raise ValueError(f"{b} is read by nobody")\n', 2),
        ("a.html.j2", "<p>{{ nobody }}</p>\n<p>Nobody reads it.</p>\n", 2),
        ("a.sql", "SELECT 1\n-- Nobody reads it.\n", 2),
        ("a.md", "# Title\n\nNobody reads it.\n", 3),
        ("a.yaml", "title: A\ndescription: >\n  Nobody reads it.\n", 3),
        ("a.json", '{\n  "description": "Nobody reads it."\n}\n', 2),
    ],
)
def test_a_phrase_is_found_with_its_line_and_a_remedy(tmp_path: Path, name: str, text: str, line: int) -> None:
    (found,) = check(tmp_path, name, text)
    assert found.lower() == f"{line}: nobody: {REMEDY}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", 'nobody = "nobody"\n'),
        ("a.py", '"""The user `nobody` runs it."""\n'),
        ("a.py", 'run("sudo", "-u nobody")\n'),
        ("a.html.j2", '<p class="nobody">{% if nobody %}{{ nobody }}{% endif %}</p>\n'),
        ("a.sql", "SELECT nobody FROM users\n"),
        ("a.md", "The user `nobody`, and [a page](nobody.md):\n\n```\nsu nobody\n```\n"),
    ],
)
def test_code_is_no_prose(tmp_path: Path, name: str, text: str) -> None:
    assert check(tmp_path, name, text) == []


def test_a_phrase_may_go_on_in_the_next_line(tmp_path: Path) -> None:
    assert len(check(tmp_path, "a.py", "# It is as\n# good as new.\n")) == 1
    assert len(check(tmp_path, "b.py", "# It is as\na = 1\n# good as new.\n")) == 0


@pytest.mark.parametrize(
    "phrase",
    [
        "Nothing of it is kept.",
        "It says nothing.",
        "Whoever reads it.",
        "Whatever it is.",
        "So many of the rows.",
        "Raises RunError where it is damaged.",
        "None where it is not known.",
        "Where there is none.",
        "Its sign stands for it.",
        "What became of it.",
    ],
)
def test_each_habit_is_found(tmp_path: Path, phrase: str) -> None:
    assert check(tmp_path, "a.md", phrase)


def test_what_resembles_a_habit_is_left_alone(tmp_path: Path) -> None:
    plain = "As long as the run lasts, the place where the message is stored has a name. Raises RunError if it has not."
    assert check(tmp_path, "a.md", plain) == []


def test_the_status_tells_whether_a_phrase_was_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.md").write_text("Nobody.")
    (tmp_path / "b.txt").write_text("Nobody.")
    assert main([str(tmp_path)]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
    (tmp_path / "a.md").write_text("Somebody.")
    assert main([str(tmp_path)]) == 0


def test_the_paths_that_lint_checks_exist() -> None:
    assert DEFAULT
    assert [name for name in DEFAULT if not (ROOT / name).exists()] == []
