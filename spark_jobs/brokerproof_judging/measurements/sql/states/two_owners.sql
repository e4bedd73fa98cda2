-- The segments that took messages which were sent after a later segment of the partition had acked its first one: two
-- owners wrote at a time.
WITH segments AS (
    SELECT
        cluster,
        topic,
        partition,
        segment,
        min(settled_at) AS first_acked,
        max(sent_at) AS last_sent
    FROM publishes
    WHERE outcome = 'acked' AND segment IS NOT NULL
    GROUP BY ALL
)
SELECT
    count(*) AS times,
    first(older.segment || ' beside ' || newer.segment ORDER BY older.segment, newer.segment) AS example
FROM segments older JOIN segments newer USING (cluster, topic, partition)
WHERE older.segment < newer.segment AND older.last_sent > newer.first_acked
