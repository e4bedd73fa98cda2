"""Whether the record of what was published is whole: without that nothing can be said about what is missing."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

# Enough for a person to see what is wrong; the count in the sentence is of all.
_SHOWN = 3


def problems(publishes: DataFrame, logs: DataFrame) -> Iterator[str]:
    """A sentence for everything that makes the record incomplete or contradictory.

    Two rows for one attempt (same producer, epoch and seq) mean that the load ran twice or recorded twice: then its
    outcomes cannot be trusted, whatever they say.
    """
    home = logs.filter("outcome IS NOT NULL AND cluster = home")
    broken = (
        home.groupBy("who")
        .agg(F.count("*").alias("there"), F.min("number").alias("low"), F.max("number").alias("high"))
        .filter("low != 0 OR there != high + 1")
    )
    yield from _told(
        broken.selectExpr(
            "concat(who, ' (', there, ' different of ', high + 1, ', from ', low, ' to ', high, ')') AS shown"
        ),
        "The seq of what was published has gaps: {}",
    )
    twice = publishes.groupBy("producer", "epoch", "seq").count().filter("count > 1")
    yield from _told(
        twice.selectExpr("concat(producer, ' seq ', seq, ' in epoch ', epoch) AS shown"),
        "One attempt is recorded more than once, so the load's record contradicts itself: {}",
    )
    contradictions = "home_low != home_high", "hash_low != hash_high"
    name = F.concat("who", F.lit(" seq "), "number")
    row = home.agg(*[F.min(F.when(F.expr(condition), name)) for condition in contradictions]).collect()[0]
    if row[0] is not None:
        yield f"Messages were published to two clusters, so they have no home; one is {row[0]}."
    if row[1] is not None:
        yield f"Messages were published with two payloads under one name; one is {row[1]}."


def _told(found: DataFrame, sentence: str) -> Iterator[str]:
    shown = [row.shown for row in found.limit(_SHOWN + 1).collect()]
    if shown:
        more = ", …" if len(shown) > _SHOWN else ""
        yield sentence.format(", ".join(sorted(shown)[:_SHOWN]) + more) + "."
