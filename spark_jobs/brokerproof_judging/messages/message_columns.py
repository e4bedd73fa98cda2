"""Which message a row is about, and where: the names and the spelling that all of judging shares."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

MESSAGE = ("who", "number", "topic")
LOG = (*MESSAGE, "cluster")
PLACE = (*LOG, "subscription")
POSITION = ("ledger_id", "entry_id", "batch_index")

# `subscription` of a message in a log; not null, so that places can be joined on.
IN_LOG = ""

# A message without a readable identity is told from others by its position. No producer's name has this character.
_ANONYMOUS = "\u0001"


def identified(frame: DataFrame) -> DataFrame:
    """With `who` and `number` for the message, never null, and its position in one spelling.

    `who` and `number` are producer and seq; a message without them gets one identity per position. The batch index is
    -1 outside a batch; a negative segment (a deduplicated retry's answer) is no position.
    """
    there = F.col("ledger_id") >= 0
    positioned = frame.withColumns(
        {
            "entry_id": F.when(there, F.col("entry_id")),
            "batch_index": F.when(there, F.coalesce(F.col("batch_index"), F.lit(-1))),
            "ledger_id": F.when(there, F.col("ledger_id")),
        }
    )
    anonymous = F.col("producer").isNull() | F.col("seq").isNull()
    place = F.concat_ws(":", "partition", "ledger_id", "entry_id", "batch_index")
    mark = F.concat(F.lit(_ANONYMOUS), place, F.lit(_ANONYMOUS), F.coalesce(F.col("producer"), F.lit("")))
    return positioned.withColumns(
        {
            "who": F.when(anonymous, mark).otherwise(F.col("producer")),
            "number": F.when(anonymous, F.coalesce(F.col("seq"), F.lit(-1))).otherwise(F.col("seq")),
        }
    )


# SQL over `who` and `number`.
NAMELESS = "starts_with(who, chr(1))"
# Null where the message carries none.
PRODUCER = f"nullif(CASE WHEN {NAMELESS} THEN split_part(who, chr(1), 3) ELSE who END, '')"
SEQ = f"CASE WHEN NOT ({NAMELESS} AND number < 0) THEN number END"


def columns(*names: str, of: str = "") -> str:
    """Names as SQL wants them, those of one table alike."""
    return ", ".join(f"{of}.{name}" if of else name for name in names)


def spelled(prefix: str = "") -> str:
    """A position as people read it, as SQL."""
    return "concat_ws(':', " + ", ".join(f"{prefix}{name}" for name in POSITION) + ")"
