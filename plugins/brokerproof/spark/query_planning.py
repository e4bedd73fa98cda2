"""Finds mistakes in the SQL of users' suites before a run: Spark plans the SQL on empty tables.

`verify` evaluates this SQL after the run, so a misspelt column would cost a whole run. Spark needs about 10 s to start,
so it starts only for SQL that it has not planned before. A file in $BROKERPROOF_VAR keeps a digest of all SQL that was
planned without a mistake.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from brokerproof.directories import Directories
from brokerproof.errors import BrokerproofError, InputError
from brokerproof.machine.files import write_whole
from brokerproof.machine.versions import read_installed_versions
from brokerproof.run.tables import SCHEMAS
from brokerproof.settings import Settings
from brokerproof.spark.submission import submit_locally
from brokerproof.suites.query_rules import QUERY_KEYWORD
from brokerproof.suites.suite_file import read_suite
from brokerproof.suites.suite_names import ENDING


@dataclass(frozen=True, kw_only=True)
class _Query:
    file: str
    field: str
    table: str
    text: str

    @property
    def digest(self) -> str:
        """A digest of everything on which the result of planning depends."""
        versions = read_installed_versions()
        parts = [self.text, self.table, SCHEMAS[self.table].to_string(), versions["spark"], versions["brokerproof"]]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def check_queries(settings: Settings, *, announce: Callable[[str], None], warn: Callable[[str], None]) -> None:
    """Raises InputError with a line for each problem that `list_query_problems` finds."""
    if problems := list_query_problems(settings, announce=announce, warn=warn):
        raise InputError("\n".join(map(str, problems)))


def list_query_problems(
    settings: Settings, *, announce: Callable[[str], None], warn: Callable[[str], None]
) -> list[InputError]:
    """Return an error for each SQL query in users' suites that Spark cannot plan.

    A file with another mistake is skipped. `announce` gets a sentence before Spark starts. If Spark cannot be used,
    `warn` gets the reason, and the result is empty.
    """
    cache = settings.var / "planned_queries.json"
    planned = _read_planned(cache)
    queries = [query for query in _list_queries(settings.expectations) if query.digest not in planned]
    if not queries:
        return []
    announce(f"checking the SQL of suites with Spark, about 10 s: {len(queries)} new or changed since the last check")
    try:
        answers = _plan(settings, queries)
    except (BrokerproofError, OSError, ImportError) as error:
        warn(
            f"the SQL of suites could not be checked before the run, because Spark did not work: {error}; "
            "`brokerproof doctor` examines Java and the packages"
        )
        return []
    planned |= {query.digest for query, answer in zip(queries, answers, strict=True) if answer is None}
    # Without the file, the next check only takes longer.
    with suppress(BrokerproofError):
        write_whole(cache, json.dumps(sorted(planned)))
    return [
        InputError(answer[0], file=query.file, field=query.field, remedy=answer[1])
        for query, answer in zip(queries, answers, strict=True)
        if answer is not None
    ]


def _list_queries(expectations: Directories) -> Iterator[_Query]:
    for name, file in expectations.list_files(ENDING).items():
        if file.parent == expectations.shipped:
            continue
        try:
            suite = read_suite([str(file.parent)], name)
        except InputError:
            continue
        for index, written in enumerate(suite.expectations):
            if written.query:
                field = f"expectations.{index}.kwargs.{QUERY_KEYWORD}"
                yield _Query(file=suite.path, field=field, table=written.table, text=written.query)


def _read_planned(cache: Path) -> set[str]:
    """Return the digests of the SQL that was planned without a mistake. A damaged file counts as empty."""
    try:
        return set(json.loads(cache.read_bytes()))
    except (OSError, ValueError, TypeError):
        return set()


def _plan(settings: Settings, queries: Sequence[_Query]) -> list[tuple[str, str] | None]:
    """Return for each query None, or what is wrong and the remedy. Raises RunError if the job of Spark failed."""
    with tempfile.TemporaryDirectory(prefix="brokerproof-queries-") as directory:
        asked, answered = Path(directory, "queries.json"), Path(directory, "answers.json")
        asked.write_text(json.dumps([[query.table, query.text] for query in queries]), encoding="utf-8")
        submit_locally(settings, "plan_suites", [str(asked), str(answered)])
        answers: list[tuple[str, str] | None] = json.loads(answered.read_bytes())
        return answers
