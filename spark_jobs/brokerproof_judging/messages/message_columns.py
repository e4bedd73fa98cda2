"""The names of the columns that say which message a row is about, and where. All of judging shares them.

The SQL that reads these columns is in `sql/macros.sql`.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

MESSAGE = ("who", "number", "topic")
LOG = (*MESSAGE, "cluster")
PLACE = (*LOG, "subscription")
POSITION = ("ledger_id", "entry_id", "batch_index")

# The columns of a place, for tables that are written on the way.
PLACE_FIELDS = [(name, pa.int64() if name == "number" else pa.string()) for name in PLACE]

# `subscription` of a message in a log. It is not null, so that rows can be joined by place.
IN_LOG = ""

# A message without a readable name is told from others by its position. No producer's name has this character.
_NAMELESS_MARK = "\u0001"


def name_messages(frame: DataFrame) -> DataFrame:
    """The frame with `who` and `number` of the message, which are never null, and with positions in one form.

    `who` and `number` are producer and seq; a message without them gets one name per position. The batch index is -1
    outside a batch; a negative segment (a deduplicated retry's answer) is no position.
    """
    there = F.col("ledger_id") >= 0
    positioned = frame.withColumns(
        {
            "entry_id": F.when(there, F.col("entry_id")),
            "batch_index": F.when(there, F.coalesce(F.col("batch_index"), F.lit(-1))),
            "ledger_id": F.when(there, F.col("ledger_id")),
        }
    )
    nameless = F.col("producer").isNull() | F.col("seq").isNull()
    place = F.concat_ws(":", "partition", "ledger_id", "entry_id", "batch_index")
    mark = F.concat(F.lit(_NAMELESS_MARK), place, F.lit(_NAMELESS_MARK), F.coalesce(F.col("producer"), F.lit("")))
    return positioned.withColumns(
        {
            "who": F.when(nameless, mark).otherwise(F.col("producer")),
            "number": F.when(nameless, F.coalesce(F.col("seq"), F.lit(-1))).otherwise(F.col("seq")),
        }
    )
