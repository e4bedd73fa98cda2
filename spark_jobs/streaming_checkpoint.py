"""The checkpoints of streaming queries, as Spark writes them: the batches that a query began and those it committed.

A checkpoint is a directory `checkpoints/<subscription>@<cluster>/` of the run's directory. `offsets/N` has the position
at which batch N ends, and `commits/N` exists once the batch is committed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import fsspec
from brokerproof.errors import RunError
from brokerproof.run.directory import Run
from brokerproof.run.records import SubscriptionDrain
from brokerproof.systems.clients import Position
from brokerproof.systems.protocols import Observation, TopicLog
from brokerproof.systems.registry import name_topic

_CHECKPOINTS = "checkpoints"


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The checkpoint of one streaming query, which reads a topic on one cluster."""

    run: Run
    cluster: str
    subscription: str

    @property
    def path(self) -> str:
        return self.run.path(*self._place)

    @property
    def _place(self) -> tuple[str, str]:
        return _CHECKPOINTS, f"{self.subscription}@{self.cluster}"

    def list_committed(self) -> list[int]:
        """Return the numbers of the committed batches, in ascending order. Spark keeps the last hundred."""
        # Spark writes a commit to a file with another name first. Names that begin with a dot are checksums.
        return sorted(int(name) for name in self.run.list_names(*self._place, "commits") if name.isdigit())

    def find_committed(self) -> Mapping[int, Position]:
        """Return the committed position of each partition, before which everything is processed.

        Raises RunError if the checkpoint is damaged.
        """
        if not (committed := self.list_committed()):
            return {}
        file = f"offsets/{committed[-1]}"
        try:
            # Spark's version of the format, the batch's metadata, and the end that the source named.
            _, _, offset = self.run.read_text(*self._place, file).splitlines()
            return load_offset(json.loads(offset))
        except (FileNotFoundError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise RunError(f"{self.path}/{file} is damaged: {error}") from None


def dump_offset(ends: Mapping[int, Position]) -> dict[str, dict[str, int]]:
    """Return positions of partitions as Spark keeps them in a checkpoint."""
    return {str(partition): {"segment": end.segment, "offset": end.offset} for partition, end in ends.items()}


def load_offset(content: Mapping[str, Mapping[str, int]]) -> dict[int, Position]:
    """Return the positions that `dump_offset` wrote."""
    return {int(partition): Position(end["segment"], end["offset"]) for partition, end in content.items()}


def find_streaming_drains(run: Run, observation: Observation) -> list[SubscriptionDrain]:
    """Return, for each partition and streaming query, whether the query has committed the log's end."""
    streaming = [each for each in run.scenario.workload.subscriptions if each.streaming is not None]
    # The end is read before the checkpoint. Otherwise it could include messages that were committed later.
    logs = observation.find_logs() if streaming else []
    return [
        _conclude(run, log, Checkpoint(run=run, cluster=log.cluster, subscription=each.name))
        for each in streaming
        for log in logs
        if log.cluster == each.find_home(run.topology)
    ]


def _conclude(run: Run, log: TopicLog, checkpoint: Checkpoint) -> SubscriptionDrain:
    committed, why = None, log.why
    if why is None:
        try:
            committed = checkpoint.find_committed().get(log.partition)
            why = f"committed {_describe(committed)}, and the log's end is {_describe(log.end)}"
        except RunError as error:
            why = str(error)
    drained = log.why is None and (log.end is None or (committed is not None and committed.reaches(log.end)))
    return SubscriptionDrain(
        cluster=log.cluster,
        topic=name_topic(run),
        partition=log.partition,
        subscription=checkpoint.subscription,
        drained=drained,
        end=None if log.end is None else log.end[:2],
        why=why,
    )


def _describe(position: Position | None) -> str:
    return "nothing" if position is None else f"{position.segment}:{position.offset}"


def remove_checkpoints(run: Run) -> None:
    """Remove the checkpoints. The drains of their queries must already be recorded."""
    filesystem, directory = fsspec.url_to_fs(run.path(_CHECKPOINTS))
    if filesystem.exists(directory):
        filesystem.rm(directory, recursive=True)
