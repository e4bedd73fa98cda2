from __future__ import annotations

import pytest
from brokerproof.spark.last_exception import LastException


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
