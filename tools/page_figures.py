"""Writes the figures of the last runs into the pages `PAGES` of docs/: `make figures`.

A comment before a table names it: `<!-- figures: NAME -->`. Each row gets the figures of the last run that counts
(measured_runs.py). A row without such a run on this machine keeps its figures, and its label gets a star. It gets no
star if docs/measured.json has the digest of its scenario, because an earlier run gave the figures. A new scenario gets
a row if one of its runs counts. The order of the rows, rows without a scenario, and the words about each scenario
stay.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from brokerproof.errors import InputError
from brokerproof.reports.latency_picture import PICTURE
from brokerproof.settings import from_environment
from figure_tables import TABLES, RowMakers
from measured_runs import MeasuredRuns, NoRunError

PAGES = ("docs/scenarios.md", "docs/what-runs-showed.md", "docs/track-record.md")
_MARK = re.compile(r"<!-- figures: (\w+) -->")


def fill_page(text: str, runs: MeasuredRuns, report: Callable[[str], None]) -> str:
    """Return the page with its tables filled. `report` is called with a sentence for each row that gets a star.

    Raises InputError if a comment names no known table, or a table has two rows with the same label.
    """
    lines: list[str] = []
    rest: Iterator[str] = iter(text.splitlines())
    for line in rest:
        lines.append(line)
        if mark := _MARK.fullmatch(line):
            if mark[1] not in TABLES:
                raise InputError(f"`{mark[1]}` is no table of figures", remedy=f"use one of {', '.join(TABLES)}")
            lines += [next(rest), next(rest)]
            present: dict[str, list[str]] = {}
            after: list[str] = []
            for row in rest:
                if not row.startswith("|"):
                    after = [row]
                    break
                cells = [cell.strip() for cell in row.strip("|").split(" | ")]
                label = cells[0].removesuffix(" *")
                if label in present:
                    raise InputError(f"the table `{mark[1]}` has two rows `{label}`", remedy="remove one of them")
                present[label] = cells[1:]
            own = 1 if mark[1] == "scenarios" else 0
            lines += _fill_rows(present, TABLES[mark[1]](runs), own=own, report=report)
            lines += after
    return "\n".join(lines) + "\n"


def _fill_rows(
    present: Mapping[str, Sequence[str]], rows: RowMakers, *, own: int, report: Callable[[str], None]
) -> Iterator[str]:
    """Yield the page's rows in their order, then the new rows.

    In the page's rows, the first `own` cells after the label stay as they are.
    """
    for label in [*present, *(label for label in rows if label not in present)]:
        before = present.get(label)
        if label not in rows:
            yield f"| {' | '.join([label, *present[label]])} |"
            continue
        try:
            cells = rows[label]()
        except NoRunError as error:
            if before is None:
                continue
            if not error.recorded:
                report(str(error))
            yield f"| {' | '.join([label if error.recorded else f'{label} *', *before])} |"
        else:
            yield f"| {' | '.join([label, *(before or cells)[:own], *cells[own:]])} |"


def main() -> int:
    """Fill the pages' tables, and copy the picture of publish latencies. Return exit status 1 if a row has no run."""
    settings = from_environment()
    recorded = settings.home / "docs" / "measured.json"
    runs = MeasuredRuns(settings, json.loads(recorded.read_text()) if recorded.exists() else ())
    missing: list[str] = []
    for page in PAGES:
        path = settings.home / page
        path.write_text(fill_page(path.read_text(encoding="utf-8"), runs, missing.append), encoding="utf-8")
    try:
        picture = runs.find_last("sync_write_latency").run.path(PICTURE)
        shutil.copyfile(Path(picture), settings.home / "docs" / "publish-latency.svg")
    except NoRunError:
        pass  # The table `latencies` needs the same run and has reported it.
    recorded.write_text(json.dumps(sorted(runs.recorded), indent=1) + "\n")
    for sentence in dict.fromkeys(missing):
        print(sentence, file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
