-- The highest position whose ack was settled in each second of a log that has rows in `rows`; null without such an ack.
-- All of them are in bucket 0.
WITH by_second AS (
    SELECT
        cluster, topic, partition, second,
        max({segment: segment, "offset": "offset", batch_index: batch_index}) FILTER (kind = 'settled') AS highest
    FROM rows
    GROUP BY cluster, topic, partition, second
)
SELECT
    cluster, topic, partition, second, highest.segment, highest."offset", highest.batch_index, 0 AS bucket
FROM by_second
