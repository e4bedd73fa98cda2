-- The segments that acked a message which was sent before the segment ahead of them acked its last one: the log went on in
-- another segment, mostly at another owner, while messages were on their way.
WITH segments AS (
    SELECT
        cluster,
        topic,
        partition,
        segment,
        min(sent_at) AS first_sent,
        max(settled_at) AS last_acked
    FROM publishes
    WHERE outcome = 'acked' AND segment IS NOT NULL
    GROUP BY ALL
)
SELECT
    count(*) AS times,
    first(older.segment || ' before ' || newer.segment ORDER BY older.segment, newer.segment) AS example
FROM segments older JOIN segments newer USING (cluster, topic, partition)
WHERE
    older.segment < newer.segment
    AND newer.first_sent < older.last_acked
    AND NOT EXISTS (
        SELECT 1 FROM segments between_them
        WHERE
            (between_them.cluster, between_them.topic, between_them.partition)
            = (older.cluster, older.topic, older.partition)
            AND between_them.segment > older.segment
            AND between_them.segment < newer.segment
    )
