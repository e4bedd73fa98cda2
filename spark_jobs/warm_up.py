"""Runs the operations of the Spark jobs once, so that Java can archive the classes that they load.

`make setup` runs it (brokerproof/spark/class_data_dump.py); no scenario does. A streaming query needs most of
Spark's classes. With them in the archive, its Java takes 5 s of processor time until the first commit, instead of 8.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession


def take(rows: DataFrame, number: int) -> None:
    """Process a batch as a streaming query of a scenario does."""
    rows.toArrow()


def main() -> None:
    spark = SparkSession.builder.appName("brokerproof warm-up").getOrCreate()
    numbers = spark.sparkContext.parallelize(range(2), 2)
    numbers.barrier().mapPartitions(iter).collect()
    numbers.mapPartitions(iter).collect()
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    rows.writeStream.foreachBatch(take).trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main()
