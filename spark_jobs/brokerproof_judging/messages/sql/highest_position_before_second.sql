-- The highest position whose ack was settled before each second of a log that has rows in `rows`. It represents all
-- earlier acks in the comparison. `highest` has the highest position in each second, for each part of the messages.
WITH positions AS (
    SELECT
        cluster, topic, partition, second,
        CASE
            WHEN segment IS NOT NULL THEN {segment: segment, "offset": "offset", batch_index: batch_index}
        END AS place
    FROM highest
),
by_second AS (
    SELECT cluster, topic, partition, second, max(place) AS place FROM positions GROUP BY ALL
),
before AS (
    SELECT cluster, topic, partition, second, max(place) OVER earlier AS place
    FROM by_second
    WINDOW earlier AS (
        PARTITION BY cluster, topic, partition ORDER BY second ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)
SELECT 'before' AS kind, cluster, topic, partition, second, place.segment, place."offset", place.batch_index
FROM before SEMI JOIN rows USING (cluster, topic, partition, second)
WHERE place IS NOT NULL
