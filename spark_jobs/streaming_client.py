"""A consumer under test that is a streaming query of Spark: it reads the log by position and writes outputs.

Usage: python -m streaming_client RUN_DIR NUMBER EPOCH READY_FD, started by the Spark job `consume`.

The process is the query's driver. The query's position is in its checkpoint, in the run's directory, so the client's
next process goes on where the checkpoint ends. Java and Spark's Python processes end when this process has ended.
"""

from __future__ import annotations

import logging
import os
import random
import secrets
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from brokerproof.clients.consuming import ConsumerTask, MovingConsumer, run_consumer
from brokerproof.clients.sink import Sink
from brokerproof.experiment.fault import ClientMoment
from brokerproof.experiment.workload import Streaming
from brokerproof.run.directory import Run
from brokerproof.settings import from_environment
from brokerproof.spark.job_configuration import build_spark_conf, build_spark_environment
from pyspark import SparkConf, SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from streaming_checkpoint import Checkpoint
from streaming_source import Notice, StreamOptions, TopicSource, write_rows

_TRIGGER = "1 second"
_LOOK_EVERY_S = 0.05
# A query that failed, perhaps because the cluster did not answer, is started again after this many seconds. The time
# doubles up to the second number: Spark gives up a Python process that does not start in 10 s. If several queries try
# again at once on a busy machine, they keep each other from it.
_RESTART_S, _LAST_RESTART_S = 1.0, 16.0

log = logging.getLogger(__name__)


class StreamingConsumer(MovingConsumer):
    """Receives and processes messages in the batches of a streaming query."""

    def __init__(self, run: Run, task: ConsumerTask, *, epoch: int = 0) -> None:
        super().__init__(run, task, epoch=epoch)
        self._constant = {**self.constant, "cluster": task.cluster, "incarnation": self.first_incarnation}
        self._sink = Sink(run=run, cluster=task.cluster, subscription=task.subscription)
        self._checkpoint = Checkpoint(run=run, cluster=task.cluster, subscription=task.subscription)
        # The processed batches whose outputs follow their commit.
        self._uncommitted: dict[int, pa.Table] = {}
        # Spark's processes report deliveries as columns.
        self.deliveries.begin(lambda _: {}, cluster=task.cluster, incarnation=self.first_incarnation)

    def receive_on(self, cluster: str, moves: int) -> None:
        """Run the query until `stopping` is set. A query that fails is started again."""
        options = self._listen(cluster)
        session = SparkSession.builder.getOrCreate()
        session.dataSource.register(TopicSource)
        restart_s = _RESTART_S
        while not self.stopping.is_set():
            query = self._start(session, options)
            try:
                self._follow(query)
            except StreamingQueryException as error:
                log.warning("the query of %s failed: %s", self.task.consumer, error)
                self.stopping.wait(restart_s * random.uniform(0.5, 1))
                restart_s = min(2 * restart_s, _LAST_RESTART_S)

    def _start(self, session: SparkSession, options: StreamOptions) -> StreamingQuery:
        rows = session.readStream.format(TopicSource.name()).options(**options.dump()).load()
        writing = rows.writeStream.option("checkpointLocation", self._checkpoint.path)
        if self.subscription.streaming is Streaming.AFTER:
            writing = writing.format(TopicSource.name()).options(**options.dump())
        else:
            writing = writing.foreachBatch(self.process_batch)
        return writing.trigger(processingTime=_TRIGGER).start()

    def _follow(self, query: StreamingQuery) -> None:
        """Follow the query until `stopping` is set. Raises StreamingQueryException if the query fails."""
        while not query.awaitTermination(_LOOK_EVERY_S) and not self.stopping.is_set():
            self.write_committed()
        if self.finishes():
            query.processAllAvailable()
        query.stop()
        self.write_committed()

    def process_batch(self, batch: DataFrame, number: int) -> None:
        """Process a batch, which Spark commits afterwards."""
        rows = batch.toArrow()
        if not rows.num_rows:
            return
        self._reach_writing(rows.num_rows)
        match self.subscription.streaming:
            case Streaming.BEFORE:
                self._uncommitted[number] = rows
                return
            case Streaming.BY_BATCH:
                for partition in pc.unique(rows.column("partition")).to_pylist():
                    part = rows.filter(pc.equal(rows.column("partition"), partition))
                    write_rows(self._sink, f"{number}-{partition}", part, self._constant)
            case _:
                write_rows(self._sink, uuid4().hex, rows, self._constant)
        self._reach_commit(number)

    def write_committed(self) -> None:
        """Write the outputs of the batches that the checkpoint has committed meanwhile."""
        if not self._uncommitted:
            return
        for number in sorted(self._uncommitted.keys() & set(self._checkpoint.list_committed())):
            self.reach(ClientMoment.IN_BATCH, f"batch {number}, which it has committed and not written")
            write_rows(self._sink, uuid4().hex, self._uncommitted.pop(number), self._constant)

    def _reach_writing(self, count: int) -> None:
        self.reach(ClientMoment.HOLDS_UNACKNOWLEDGED, f"{count:,} messages that it has neither written nor committed")

    def _reach_commit(self, number: int) -> None:
        self.reach(ClientMoment.IN_BATCH, f"batch {number}, which it has written and not committed")

    def _listen(self, cluster: str) -> StreamOptions:
        """Begin to answer Spark's processes on threads. Return what they have to know."""
        # An abstract address of Linux (unix(7)) leaves no file behind if the client is killed.
        address, secret = f"\0brokerproof-{os.getpid()}-{secrets.token_hex(4)}", secrets.token_bytes(16)
        listener = Listener(address, "AF_UNIX", authkey=secret, backlog=16)

        def accept() -> None:
            while True:
                # A process that ended meanwhile, or one without the secret, ends no other connection.
                with suppress(OSError, EOFError):
                    threading.Thread(target=self._answer, args=(listener.accept(),), daemon=True).start()

        threading.Thread(target=accept, name="listen", daemon=True).start()
        return StreamOptions(
            run=self.run.directory,
            cluster=cluster,
            region=self.subscription.region,
            subscription=self.task.subscription,
            constant=self._constant,
            address=address,
            secret=secret.hex(),
        )

    def _answer(self, connection: Connection) -> None:
        with suppress(OSError, EOFError), connection:
            notice, content = connection.recv()
            self.note(notice, content)
            connection.send(None)

    def note(self, notice: Notice, content: Any) -> None:
        """Note what one of Spark's processes tells."""
        match notice:
            case Notice.CONNECTED if not self.has_subscribed:
                self.has_subscribed = True
                self.say_ready()
            case Notice.DELIVERED:
                # A delivery is recorded before the task goes on, so each output has one.
                self.deliveries.add_columns(_make_deliveries(content), content.num_rows)
                if self.keep is not None:
                    self.keep()
            case Notice.WRITES:
                self._reach_writing(content)
            case Notice.WRITTEN:
                self._reach_commit(content)


def _make_deliveries(rows: pa.RecordBatch) -> Mapping[str, Any]:
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    # A reader by position knows no earlier deliveries.
    return {**columns, "redelivery_count": np.zeros(rows.num_rows, dtype=np.int32)}


def start_java() -> None:
    """Begin to start Java for this process's query, while Python waits for the clusters."""
    settings, temporary = from_environment(), Path(tempfile.gettempdir())
    os.environ.update(build_spark_environment(settings, temporary, local=True))
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {settings.streaming_memory} pyspark-shell"
    conf = SparkConf(loadDefaults=False).setMaster("local[1]").setAppName("brokerproof-streaming")
    conf.setAll(list(build_spark_conf(settings, temporary, local=True).items()))
    # Spark would warn of each batch that takes longer than the trigger's interval.
    conf.set("spark.log.level", "ERROR")
    # The session waits for this start. If it failed, the session tries it again and reports the error.
    threading.Thread(target=SparkContext._ensure_initialized, kwargs={"conf": conf}, daemon=True).start()


if __name__ == "__main__":
    start_java()
    run_consumer(StreamingConsumer)
