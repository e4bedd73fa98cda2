"""Makes the columns that identify a message and its place (a log or a subscription), and reads the package's SQL."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from brokerproof_judging.database import DuckDB

MESSAGE = ("who", "number", "topic")
LOG = (*MESSAGE, "cluster")
PLACE = (*LOG, "subscription")
POSITION = ("segment", "offset", "batch_index")

# The columns of a place, in intermediate tables.
PLACE_FIELDS = [(name, pa.int64() if name == "number" else pa.string()) for name in PLACE]

# The value of `subscription` for a log. It is not null, so that rows can be joined by place.
IN_LOG = ""

# A message without a readable name is identified by its position. No producer's name has this character.
_NAMELESS_MARK = "\u0001"


def name_messages(frame: DataFrame) -> DataFrame:
    """Return the frame with the columns `who` and `number`, which identify a message, and with comparable positions.

    `who` and `number` are producer and seq, and never null. If one of these is missing, `who` is made of the message's
    position. The batch index is -1 outside a batch. A system may answer a deduplicated retry with a negative segment.
    This is no position, so segment, offset and batch index become null.
    """
    there = F.col("segment") >= 0
    positioned = frame.withColumns(
        {
            "offset": F.when(there, F.col("offset")),
            "batch_index": F.when(there, F.coalesce(F.col("batch_index"), F.lit(-1))),
            "segment": F.when(there, F.col("segment")),
        }
    )
    nameless = F.col("producer").isNull() | F.col("seq").isNull()
    place = F.concat_ws(":", "partition", "segment", "offset", "batch_index")
    mark = F.concat(F.lit(_NAMELESS_MARK), place, F.lit(_NAMELESS_MARK), F.coalesce(F.col("producer"), F.lit("")))
    return positioned.withColumns(
        {
            "who": F.when(nameless, mark).otherwise(F.col("producer")),
            "number": F.when(nameless, F.coalesce(F.col("seq"), F.lit(-1))).otherwise(F.col("seq")),
        }
    )


@cache
def read_query(name: str) -> str:
    """Return the text of `sql/NAME.sql`."""
    return files("brokerproof_judging.messages").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def define_macros(connection: DuckDB) -> None:
    """Define the macros of `sql/macros.sql`, which several queries share."""
    connection.execute(read_query("macros"))
