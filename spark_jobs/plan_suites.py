"""Plan the SQL of suites on empty tables: `spark-submit plan_suites.py QUERIES ANSWERS`.

QUERIES is a JSON file with pairs of table and SQL. The job writes the JSON file ANSWERS, which has for each pair null,
or what is wrong and the remedy. It uses the session of `verify`, which evaluates the same SQL after a run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from brokerproof.machine.files import write_whole
from brokerproof_judging.suites.query_planning import find_query_problem
from verify import session


def main(arguments: Sequence[str]) -> None:
    queries, answers = map(Path, arguments)
    spark = session()
    pairs = json.loads(queries.read_text(encoding="utf-8"))
    write_whole(answers, json.dumps([find_query_problem(spark, table, query) for table, query in pairs]))


if __name__ == "__main__":
    main(sys.argv[1:])
