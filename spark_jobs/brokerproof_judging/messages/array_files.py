"""Files of arrays, which tasks leave for later tasks and for the driver.

A file begins with a line of JSON, which describes the arrays, and has their bytes behind it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import fsspec
import numpy as np

from brokerproof_judging.messages.dense_arrays import Array


class _Saved(NamedTuple):
    """An array in a file: its type and length, and the type, the length and the lowest number of what is saved."""

    name: str
    kind: str
    length: int
    saved_kind: str
    saved_length: int
    lowest: int


def save_arrays(path: str, header: Any, arrays: Mapping[str, Array], *, narrow: bool = False) -> None:
    """Write arrays, and values that JSON can hold, to a file.

    With `narrow`, arrays of whole numbers or bits are saved as differences from their lowest numbers, in the fewest
    bytes that hold these, and arrays of equal numbers without any. `open_arrays` cannot read these.
    """
    filesystem, place = fsspec.url_to_fs(path)
    filesystem.makedirs(place.rpartition("/")[0], exist_ok=True)
    saved, described = [], []
    for name, values in arrays.items():
        kept, lowest = _narrow(values) if narrow else (values, 0)
        saved.append(kept)
        described.append(_Saved(name, values.dtype.str, len(values), kept.dtype.str, len(kept), lowest))
    with filesystem.open(place, "wb") as file:
        file.write(json.dumps([header, described]).encode() + b"\n")
        for kept in saved:
            file.write(np.ascontiguousarray(kept).view(np.uint8).data)


def _narrow(values: Array) -> tuple[Array, int]:
    """Return the differences of numbers from the lowest one, and this one. If all are equal, return no difference."""
    numbers = values.view(np.uint8) if values.dtype == bool else values
    lowest, highest = (int(numbers.min()), int(numbers.max())) if len(values) else (0, 0)
    smallest = np.min_scalar_type(highest - lowest)
    if lowest == highest:
        return numbers[:0], lowest
    if smallest.itemsize < numbers.itemsize:
        return (numbers - numbers.dtype.type(lowest)).astype(smallest), lowest
    return values, 0


def load_arrays(path: str) -> tuple[Any, dict[str, Array]]:
    """Return what `save_arrays` wrote. The arrays may be read-only."""
    filesystem, place = fsspec.url_to_fs(path)
    with filesystem.open(place, "rb") as file:
        header, described = json.loads(file.readline())
        arrays = {}
        for each in map(_Saved._make, described):
            kind, saved_kind = np.dtype(each.kind), np.dtype(each.saved_kind)
            saved = np.frombuffer(file.read(each.saved_length * saved_kind.itemsize), saved_kind)
            if len(saved) < each.length:
                arrays[each.name] = np.broadcast_to(np.array(each.lowest).astype(kind), each.length)
            elif kind == saved_kind:
                arrays[each.name] = saved
            else:
                arrays[each.name] = saved.astype(kind)
                arrays[each.name] += kind.type(each.lowest)
        return header, arrays


class Sliceable(Protocol):
    """An array, or an array in a file. A slice reads only its own numbers."""

    def __getitem__(self, numbers: slice, /) -> Array: ...


@dataclass(frozen=True)
class _ArrayInFile:
    filesystem: fsspec.AbstractFileSystem
    place: str
    kind: np.dtype[Any]
    # In bytes.
    start: int
    length: int

    def __getitem__(self, numbers: slice, /) -> Array:
        first, end, _ = numbers.indices(self.length)
        if end <= first:
            return np.zeros(0, self.kind)
        size = self.kind.itemsize
        # The second argument of S3's file system is a version.
        content = self.filesystem.cat_file(self.place, start=self.start + first * size, end=self.start + end * size)
        return np.frombuffer(content, self.kind)


def open_arrays(path: str) -> tuple[Any, dict[str, Sliceable]]:
    """Return what `save_arrays` wrote. A slice of an array is read when it is taken."""
    filesystem, place = fsspec.url_to_fs(path)
    with filesystem.open(place, "rb") as file:
        header, described = json.loads(file.readline())
        start, arrays = file.tell(), dict[str, Sliceable]()
    for each in map(_Saved._make, described):
        kind = np.dtype(each.kind)
        arrays[each.name] = _ArrayInFile(filesystem, place, kind, start, each.length)
        start += each.length * kind.itemsize
    return header, arrays
