-- The highest position that was settled in each second of a log, for seconds with rows in `rows`; null if none was.
WITH by_second AS (
    SELECT
        cluster, topic, partition, second,
        max({segment: segment, "offset": "offset", batch_index: batch_index}) FILTER (kind = 'settled') AS highest
    FROM rows
    GROUP BY cluster, topic, partition, second
)
SELECT cluster, topic, partition, second, highest.segment, highest."offset", highest.batch_index FROM by_second
