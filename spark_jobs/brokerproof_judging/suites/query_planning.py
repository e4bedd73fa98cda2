"""Plans the SQL of an expectation before a run, on an empty table, and says what is wrong with it.

Great Expectations evaluates the same text after the run. This module does not import the library, whose import takes
longer than the planning.
"""

from __future__ import annotations

import re

from brokerproof.errors import InputError
from brokerproof.suites.query_rules import VIEW, fill_in_batch
from py4j.java_gateway import is_instance_of
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import SparkSession

from brokerproof_judging.suites.parsed_query import check_plan
from brokerproof_judging.table_io import make_table_schema

_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"
# How much of a query is shown before the place of a syntax error, in characters.
_SHOWN = 40
# By Spark's error condition. For other conditions, Spark's own message has the remedy, or there is none.
_REMEDIES = {
    "PARSE_SYNTAX_ERROR": "correct the SQL",
    "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES": (
        "write a time as TIMESTAMP '2026-01-31 12:00:00', and a duration as INTERVAL 5 SECONDS"
    ),
}


def find_query_problem(spark: SparkSession, table: str, query: str) -> tuple[str, str] | None:
    """Return what is wrong with a query on a table of a run, and the remedy; None if Spark can plan the query.

    Spark parses and analyzes the query, and executes nothing.
    """
    spark.createDataFrame([], make_table_schema(table)).createOrReplaceTempView(VIEW)
    try:
        text = fill_in_batch(query)
    except ValueError as error:
        return str(error), "write the table as `{batch}`"
    # `spark.sql` would execute a command, such as DROP.
    state = spark._jsparkSession.sessionState()
    skip = spark._jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    try:
        plan = state.sqlParser().parsePlan(text)
        if is_instance_of(spark.sparkContext._gateway, plan, _COMMAND):
            return "is a command, and no query that selects rows", "begin it with SELECT"
        check_plan(plan)
        state.executePlan(plan, skip).assertAnalyzed()
    except InputError as error:
        return error.problem, error.remedy
    except PySparkException as error:
        return _explain(error, table, text)
    return None


def strip_codes(text: str) -> str:
    """Return an error of Spark without its condition, such as `[PARSE_SYNTAX_ERROR]`, its SQL state and its plan."""
    return re.sub(r"^\s*\[[A-Z_.]+\] |\s*SQLSTATE: .*", "", text, flags=re.DOTALL)


def _explain(error: PySparkException, table: str, text: str) -> tuple[str, str]:
    condition, parameters = error.getCondition() or "", error.getMessageParameters() or {}
    if condition == "UNRESOLVED_COLUMN.WITH_SUGGESTION":
        name = parameters["objectName"].replace("`", "")
        near = ", ".join(f"`{column.replace('`', '')}`" for column in parameters["proposal"].split(", ")[:3])
        return f"`{table}` has no column `{name}`", f"the nearest are {near}"
    # The message has the reason, and then often advice, each in a sentence or line of its own.
    reason, *advice = re.split(r"\.\s|\n", strip_codes(error.getMessage() or str(error)).replace(VIEW, "{batch}"))
    before = _find_text_before(error, text) if isinstance(error, ParseException) else ""
    remedy = _REMEDIES.get(condition) or (advice[0] if advice else "correct the SQL")
    return reason.rstrip(".") + (f", after `{before}`" if before else ""), remedy.rstrip(".")


def _find_text_before(error: ParseException, text: str) -> str:
    """Return the end of the text before the place of a syntax error; empty if it is at the beginning of a line."""
    place = re.search(r"\(line (\d+), pos (\d+)\)", str(error))
    if place is None:
        return ""
    line = text.splitlines()[int(place[1]) - 1][: int(place[2])].replace(VIEW, "{batch}").strip()
    return line if len(line) <= _SHOWN else f"…{line[-_SHOWN:]}"
