"""Makes the columns that identify a message and its place (a log or a subscription), and reads the package's SQL."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from brokerproof.run.division import Division

from brokerproof_judging.database import DuckDB
from brokerproof_judging.recorded_parts import RecordedParts

MESSAGE = ("who", "number", "topic")
LOG = (*MESSAGE, "cluster")
PLACE = (*LOG, "subscription")
POSITION = ("segment", "offset", "batch_index")

# The columns of a place, in intermediate tables.
PLACE_FIELDS = [(name, pa.int64() if name == "number" else pa.string()) for name in PLACE]

# The columns that name a message.
NAMES = pa.schema(PLACE_FIELDS[: len(MESSAGE)])

# The value of `subscription` for a log. It is not null, so that rows can be joined by place.
IN_LOG = ""

# A message without a readable name is identified by its position. No producer's name has this character.
_NAMELESS_MARK = "\u0001"


def find_parts(division: Division | RecordedParts, messages: pa.RecordBatch) -> npt.NDArray[np.int64]:
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
