"""The campaigns in the history. A campaign is a series of runs that one run of the DAG `campaign` started.

The ids of these runs contain the time at which the campaign was planned. So the history has no table of campaigns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session, load_only

from brokerproof.results.history_schema import RecordedRun

_STAMP = re.compile(r"-(?P<stamp>\d{8}T\d{6}Z)-campaign(?P<number>_\d+)?(?P<try>-\d+)?$")
# Only these columns are read, because a page lists many runs, and the parameters of a run are large.
_COLUMNS = (
    RecordedRun.run_id,
    RecordedRun.scenario,
    RecordedRun.verdict,
    RecordedRun.expected_verdict,
    RecordedRun.met,
    RecordedRun.why,
    RecordedRun.total_s,
)


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """A campaign and its runs, oldest first. `stamp` is the time at which it was planned, as in 20261123T010000Z."""

    stamp: str
    runs: tuple[RecordedRun, ...]

    @property
    def met(self) -> bool:
        return all(run.met for run in self.runs)


def select_campaigns(session: Session, *, stamp: str | None = None, limit: int = 30) -> list[Campaign]:
    """Return at most `limit` campaigns, newest first. If `stamp` is given, return only the campaign with this stamp.

    If a user cleared a run, so that Airflow repeated it, `runs` has only the last try.
    """
    ending = f"%-{stamp}-campaign%" if stamp else "%Z-campaign%"
    found: dict[str, dict[tuple[str, str | None], RecordedRun]] = {}
    rows = session.scalars(
        select(RecordedRun)
        .where(RecordedRun.run_id.like(ending))
        .order_by(RecordedRun.started_at, RecordedRun.id)
        .options(load_only(*_COLUMNS, raiseload=True))
    )
    for run in rows:
        matched = _STAMP.search(run.run_id)
        if matched and stamp in (None, matched["stamp"]):
            found.setdefault(matched["stamp"], {})[run.scenario, matched["number"]] = run
    newest: Sequence[str] = sorted(found, reverse=True)[:limit]
    return [Campaign(stamp=name, runs=tuple(found[name].values())) for name in newest]
