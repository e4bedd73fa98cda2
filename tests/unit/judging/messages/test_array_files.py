"""Arrays come back from files as they were, in fewer bytes if they may be narrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from brokerproof_judging.messages.array_files import load_arrays, map_arrays, save_arrays

NUMBERS = np.iinfo(np.int64)
SMALL = np.iinfo(np.int32)


@pytest.mark.parametrize(
    ("values", "size"),
    [
        (np.array([True, False]), 1),
        (np.array([True, True]), 0),
        (np.zeros(0, np.int64), 0),
        (np.full(3, NUMBERS.min), 0),
        (np.array([1 << 60, (1 << 60) + 255]), 1),
        (np.array([-5, 1 << 31]), 4),
        (np.array([-5, 1 << 32]), 8),
        (np.array([NUMBERS.min, NUMBERS.max]), 8),
        (np.array([SMALL.min, SMALL.min + 300], np.int32), 2),
        (np.array([SMALL.min, SMALL.max], np.int32), 4),
    ],
)
def test_narrow_arrays_have_as_few_bytes_as_their_range_needs(tmp_path: Path, values: Any, size: int) -> None:
    save_arrays(f"{tmp_path}/some/file", {"of": "a part"}, {"values": values, "others": np.array([7, 8])}, narrow=True)

    header, arrays = load_arrays(f"{tmp_path}/some/file")

    content = Path(tmp_path, "some", "file").read_bytes()
    assert len(content.partition(b"\n")[2]) == size * len(values) + 2
    assert header == {"of": "a part"}
    assert (arrays["values"].dtype, arrays["values"].tolist()) == (values.dtype, values.tolist())
    assert arrays["others"].tolist() == [7, 8]


def test_other_arrays_are_mapped_as_they_are(tmp_path: Path) -> None:
    values = {"empty": np.zeros(0, np.int32), "numbers": np.array([5, 6]), "bits": np.array([True, False])}
    save_arrays(f"{tmp_path}/file", [], values)
    for _, arrays in (map_arrays(f"{tmp_path}/file"), load_arrays(f"{tmp_path}/file")):
        assert {name: (array.dtype, array.tolist()) for name, array in arrays.items()} == {
            name: (array.dtype, array.tolist()) for name, array in values.items()
        }
