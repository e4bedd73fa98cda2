"""The histories of the differential test, written as runs, with the answers of the reference judge."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from brokerproof.run.directory import Run

from tests.unit.judging.messages.test_differential import BATCH, NAMESPACE, REPLICATED, make_history, mess
from tests.unit.judging.reference import Reference

Answer = set[tuple[Any, ...]]
Judge = Callable[[Run, Mapping[str, str]], Answer]


def write_histories(directory: Path, batches: int) -> Iterator[tuple[Run, Answer]]:
    """Yield each batch of the differential test as a run, with the answer of the reference judge."""
    for batch in range(batches):
        history = make_history(random.Random(f"scenario {batch}"))
        for seed in range(batch * BATCH, (batch + 1) * BATCH):
            history.topic = f"persistent://{NAMESPACE if seed % 2 else REPLICATED}/seed-{seed}"
            mess(history, random.Random(seed))
        reference = Reference(history, history.facts["clock_error_us"])
        yield history.write(directory / f"batch-{batch}"), {(*each[:5], each[5][-2:]) for each in reference.judge()}
