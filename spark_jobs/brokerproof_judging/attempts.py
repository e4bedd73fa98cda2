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
    yield from _told(
        home.filter("home_low != home_high").selectExpr("concat(who, ' seq ', number) AS shown"),
        "One message was published to two clusters, so it has no home: {}",
    )
    yield from _told(
        home.filter("hash_low != hash_high").selectExpr("concat(who, ' seq ', number) AS shown"),
        "One message was published with two payloads: {}",
    )


def _told(found: DataFrame, sentence: str) -> Iterator[str]:
    shown = [row.shown for row in found.limit(_SHOWN + 1).collect()]
    if shown:
        more = ", …" if len(shown) > _SHOWN else ""
        yield sentence.format(", ".join(sorted(shown)[:_SHOWN]) + more) + "."
