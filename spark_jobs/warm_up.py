"""Runs the operations of the Spark jobs once, on a few rows, so that Java can archive the classes that they load.

`make setup` runs it (brokerproof/spark/class_data_dump.py); no scenario does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F


def _pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _query_like_judging(rows: DataFrame) -> DataFrame:
    """Return a frame that groups by sort and by hash, with windows, joins, arrays, structs, times and strings."""
    grouped = (
        rows.repartition("who")
        .groupBy("who", "number")
        .agg(
            F.min(F.struct("at", "number")).alias("first"),
            F.max("at").alias("last"),
            F.count_if(F.col("number") > 3).alias("later"),
            F.collect_list("text").alias("texts"),
        )
    )
    ordered = Window.partitionBy("who").orderBy("number")
    before = ordered.rowsBetween(Window.unboundedPreceding, -1)
    moved = grouped.withColumns({"nth": F.row_number().over(ordered), "ahead": F.max("number").over(before)})
    few = F.broadcast(rows.select("who").distinct())
    joined = moved.join(few, "who").join(rows.select("who", F.col("number").alias("other")), "who", "full_outer")
    return joined.withColumns(
        {
            "sentence": F.expr("concat(who, ':', coalesce(ahead, 0), ' of ', size(texts), ' at ', last)"),
            "found": F.transform(
                F.array_compact(F.array(F.when(F.col("ahead") > 1, F.struct("who", "nth")))), lambda each: each["who"]
            ),
        }
    )


def main() -> None:
    spark = SparkSession.builder.appName("brokerproof warm-up").getOrCreate()
    rows = spark.range(8, numPartitions=2).select(
        F.concat(F.lit("p-"), F.col("id") % 2).alias("who"),
        F.col("id").alias("number"),
        F.timestamp_micros(F.col("id") * 1_000).alias("at"),
        F.lit("text").alias("text"),
    )
    spark.sparkContext.parallelize(range(2), 2).barrier().mapPartitions(iter).collect()
    with tempfile.TemporaryDirectory(prefix="brokerproof-warm-up-") as directory:
        rows.mapInArrow(_pass_on, rows.schema).write.mode("append").parquet(f"{directory}/rows")
        stored = spark.read.parquet(f"{directory}/rows")
        rows.mapInArrow(_pass_on, rows.schema).collect()
        judged = _query_like_judging(stored).persist(StorageLevel.DISK_ONLY)
        judged.count()
        judged.write.parquet(f"{directory}/judged")
        found = judged.withColumn("each", F.explode_outer("found")).groupBy("each").agg(F.count("*"), F.max("sentence"))
        found.union(found).orderBy("each").collect()
        named = spark.createDataFrame([("p-0", 1)], "name string, value int").coalesce(1)
        named.join(F.broadcast(found), named["name"] == found["each"], "left").collect()
        stored.agg(F.percentile_approx("number", [0.5, 0.99]), F.min("at")).collect()


if __name__ == "__main__":
    main()
