"""Measures how often a run was in each of the states that are worth reaching."""

from __future__ import annotations

from collections.abc import Iterator

from brokerproof.experiment.states import STATES
from brokerproof.faults.registry import FAULT_KINDS
from brokerproof.run.directory import Run
from brokerproof.run.fault_course import read_fault_courses

from brokerproof_judging.database import make_small_table, register_tables, select_rows
from brokerproof_judging.measurements.measured_values import MeasuredValue, make_measured_value
from brokerproof_judging.run_database import open_run_database, read_script


def measure_states(run: Run) -> Iterator[MeasuredValue]:
    """Yield for each state how often the run was in it, with the first example, from the tables of its clients.

    Each state has a query in `sql/states/`, which gives the columns `times` and `example`.
    """
    wipes = [
        (node, course.effective_at, course.recovered_at)
        for course in read_fault_courses(run).values()
        if course.kind in FAULT_KINDS and FAULT_KINDS[course.kind].destroys and course.effective_at is not None
        for node in course.targets
    ]
    with open_run_database(run, ("publishes", "deliveries", "copies")) as connection:
        register_tables(connection, {"wipes_us": make_small_table("node string, wiped int64, back int64", wipes)})
        connection.execute(
            "CREATE VIEW wipes AS SELECT node, make_timestamptz(wiped) AS wiped, make_timestamptz(back) AS back "
            "FROM wipes_us"
        )
        for state in STATES:
            (row,) = select_rows(connection, read_script("measurements", f"states/{state}"))
            yield make_measured_value("reached", state, float(row["times"]), row["example"] or "never")
