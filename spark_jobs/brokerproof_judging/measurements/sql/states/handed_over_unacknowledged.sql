-- The messages of a subscription that two of its consumers got.
SELECT count(*) AS times, first(producer || '/' || seq || ' at ' || subscription) AS example
FROM (
    SELECT cluster, subscription, producer, seq
    FROM deliveries
    WHERE producer IS NOT NULL AND seq IS NOT NULL
    GROUP BY ALL
    HAVING min(consumer) != max(consumer)
)
