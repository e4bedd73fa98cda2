-- The number of keys, and of those with acked messages in two or more partitions of a cluster's topic.
WITH of_keys AS (
    SELECT cluster, topic, producer, key, count(DISTINCT partition) AS partitions
    FROM publishes
    WHERE outcome = 'acked'
    GROUP BY cluster, topic, producer, key
)
SELECT count(*) AS keys, count(*) FILTER (partitions > 1) AS moved FROM of_keys
