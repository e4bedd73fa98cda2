"""Measures how often a run was in each of the states that are worth reaching."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from brokerproof.experiment.states import STATES
from brokerproof.faults.kind import FaultKind
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.run.directory import Run
from brokerproof.run.fault_course import read_fault_courses

from brokerproof_judging.database import make_small_table, register_tables, select_rows
from brokerproof_judging.measurements.measured_values import MeasuredValue, make_measured_value
from brokerproof_judging.run_database import open_run_database, read_script

# By table of the queries, the kinds of fault whose targets it has, with the times of effect and recovery.
_TABLES: Mapping[str, Callable[[FaultKind], bool]] = {
    "wipes": lambda kind: kind.destroys,
    "apart": lambda kind: not kind.ends_nodes and not kind.leaves_nodes,
}
# By state, the rows without which a run that never was in it looks like one that was not watched.
_COPIES, _OWNERS = "copies", "observations WHERE metric = 'owner' OR starts_with(metric, 'owner:')"
_RESTS_ON: Mapping[str, str] = {
    "copies_changed_in_flight": _COPIES,
    "deposed_owner_returned": _OWNERS,
    "wiped_copies_written": _COPIES,
    "wiped_copies_recovered": _COPIES,
}
_UNKNOWN: Mapping[str, str] = {_COPIES: "no list of copies was recorded", _OWNERS: "the topic's owner was not sampled"}


def measure_states(run: Run) -> Iterator[MeasuredValue]:
    """Yield for each state how often the run was in it, with the first example, from the tables of its clients.

    Each state has a query in `sql/states/`, which gives the columns `times` and `example`. The value is None if
    the rows that would show the state were not recorded.
    """
    courses = [each for each in read_fault_courses(run).values() if each.kind in FAULT_KINDS and each.effective_at]
    with open_run_database(run, ("publishes", "deliveries", "copies", "observations")) as connection:
        for table, is_in in _TABLES.items():
            rows = [
                (node, course.effective_at, course.recovered_at)
                for course in courses
                if is_in(FAULT_KINDS[course.kind])
                for node in course.targets
            ]
            register_tables(connection, {f"{table}_us": make_small_table("node string, since int64, back int64", rows)})
            connection.execute(
                f"CREATE VIEW {table} AS "
                f"SELECT node, make_timestamptz(since) AS since, make_timestamptz(back) AS back FROM {table}_us"
            )
        missing = {source for source in _UNKNOWN if not select_rows(connection, f"SELECT 1 FROM {source} LIMIT 1")}
        for state in STATES:
            source = _RESTS_ON.get(state)
            if source in missing:
                yield make_measured_value("reached", state, None, _UNKNOWN[source])
                continue
            (row,) = select_rows(connection, read_script("measurements", f"states/{state}"))
            yield make_measured_value("reached", state, float(row["times"]), row["example"] or "never")
