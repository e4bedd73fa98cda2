"""Makes the columns that identify a message and its place (a log or a subscription), and reads the package's SQL."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from brokerproof.run.division import Division
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
    place = F.concat_ws(":", *[F.coalesce(F.col(name).cast("string"), F.lit("")) for name in ("partition", *POSITION)])
    mark = F.concat(F.lit(_NAMELESS_MARK), place, F.lit(_NAMELESS_MARK), F.coalesce(F.col("producer"), F.lit("")))
    return positioned.withColumns(
        {
            "who": F.when(nameless, mark).otherwise(F.col("producer")),
            "number": F.when(nameless, F.coalesce(F.col("seq"), F.lit(-1))).otherwise(F.col("seq")),
        }
    )


def find_parts(division: Division, messages: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return the part of each message of a batch with the columns `who` and `number`."""
    who = messages.column("who").dictionary_encode()
    names = who.dictionary.to_pylist()
    places = [name[1:].partition(_NAMELESS_MARK)[0] if name.startswith(_NAMELESS_MARK) else None for name in names]
    identities: dict[str, list[str | int | None]] = {
        "producer": [name if place is None else None for name, place in zip(names, places, strict=True)],
        **{
            column: [None if place is None else _read_number(place.split(":")[index]) for place in places]
            for index, column in enumerate(("partition", "segment", "offset"))
        },
    }
    types = (pa.string(), pa.int32(), pa.int64(), pa.int64())
    columns = {
        name: pa.array(values, kind).take(who.indices)
        for (name, values), kind in zip(identities.items(), types, strict=True)
    }
    return division.compute_parts(pa.RecordBatch.from_pydict({**columns, "seq": messages.column("number")}))


def _read_number(text: str) -> int | None:
    return int(text) if text else None


@cache
def read_query(name: str) -> str:
    """Return the text of `sql/NAME.sql`."""
    return files("brokerproof_judging.messages").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def define_macros(connection: DuckDB) -> None:
    """Define the macros of `sql/macros.sql`, which several queries share."""
    connection.execute(read_query("macros"))
