"""Topics that get more partitions: what a workload may say of them, and which partitions there are."""

from __future__ import annotations

import pytest
from brokerproof.experiment.workload import Workload
from pydantic import ValidationError


@pytest.mark.parametrize(("partitions", "grows_to"), [(0, 2), (4, 4), (4, 3)])
def test_a_topic_grows_only_from_some_partitions_to_more(partitions: int, grows_to: int) -> None:
    Workload(partitions=partitions)
    with pytest.raises(
        ValidationError, match=f"grows_to: a topic of {partitions} partitions cannot grow to {grows_to}"
    ):
        Workload(partitions=partitions, grows_to=grows_to)


def test_a_topic_that_grows_has_some_partitions_first_and_more_at_the_end() -> None:
    workload = Workload(partitions=1, grows_to=3)
    assert (workload.list_first_partitions(), workload.list_partitions()) == ([0], [0, 1, 2])


@pytest.mark.parametrize(("partitions", "numbers"), [(0, [-1]), (1, [0]), (3, [0, 1, 2])])
def test_a_topic_that_does_not_grow_has_the_same_partitions_all_the_time(partitions: int, numbers: list[int]) -> None:
    workload = Workload(partitions=partitions)
    assert workload.grows_to is None
    assert workload.list_first_partitions() == workload.list_partitions() == numbers
