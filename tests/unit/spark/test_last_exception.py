from __future__ import annotations

import pytest
from brokerproof.spark.submission import LastException


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("brokerproof.errors.RunError: the table is empty", "the table is empty"),
        ("ValueError: no", "ValueError: no"),
        ("26/11/21 01:00:00 WARN Utils: nothing of interest", ""),
    ],
)
def test_the_last_exception_of_a_job_gives_its_sentence(line: str, sentence: str) -> None:
    last = LastException()
    lines = ["Traceback (most recent call last):\n", f"{line}\n", "26/11/21 INFO ShutdownHookManager: bye\n"]
    assert list(last.watch(lines)) == lines
    assert last.sentence == sentence


def test_what_spark_names_while_it_ends_the_other_tasks_does_not_hide_our_own() -> None:
    last = LastException()
    own, others = (
        "brokerproof.errors.RunError: log-p0: it was killed",
        "SparkException: Block broadcast_0 does not exist",
    )
    list(last.watch(["ValueError: no", own, others]))
    assert last.sentence == "log-p0: it was killed"
    list(last.watch(["brokerproof.errors.RunError: log-p1: it was killed"]))
    assert last.sentence == "log-p1: it was killed"


def test_the_innermost_cause_that_java_names_is_told_with_the_exception_that_spark_ends_with() -> None:
    """Of a task that cannot write, Python's traceback names Spark's own exception alone."""
    failed = "SparkException: [TASK_WRITE_FAILED] Task failed while writing rows. SQLSTATE: 58030"
    last = LastException()
    lines = [
        f"org.apache.spark.{failed}",
        "\tat org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailedWhileWritingRowsError",
        "Caused by: org.apache.spark.SparkException: the task was ended",
        "Caused by: java.io.FileNotFoundException: /tmp/blockmgr/0c (No such file or directory)",
        "Traceback (most recent call last):",
        f"pyspark.errors.exceptions.captured.{failed}",
    ]
    list(last.watch(lines))
    cause = "FileNotFoundException: /tmp/blockmgr/0c (No such file or directory)"
    assert last.sentence == f"{failed}; its cause is {cause}"
    list(last.watch(["ValueError: no"]))
    assert last.sentence == "ValueError: no"


def test_a_cause_that_is_our_own_says_what_happened() -> None:
    last = LastException()
    list(last.watch(["org.apache.spark.SparkException: no", "Caused by: brokerproof.errors.RunError: log-p0: gone"]))
    assert last.sentence == "log-p0: gone"
