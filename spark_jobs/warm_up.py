"""Runs the operations of the Spark jobs once, so that Java can archive the classes that they load.

`make setup` runs it (brokerproof/spark/class_data_dump.py); no scenario does. Only queries in suites of users need
Spark's SQL. It is left out, because it doubles the time of `make setup` and makes the archive larger by half.
"""

from __future__ import annotations

from pyspark.sql import SparkSession


def main() -> None:
    spark = SparkSession.builder.appName("brokerproof warm-up").getOrCreate()
    numbers = spark.sparkContext.parallelize(range(2), 2)
    numbers.barrier().mapPartitions(iter).collect()
    numbers.mapPartitions(iter).collect()


if __name__ == "__main__":
    main()
