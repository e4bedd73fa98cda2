-- The turns that overlap turns of other consumers, with their first and last delivery. A subscription whose consumers
-- share messages by key has turns for each key. Its messages without a key may go to any consumer.
CREATE TABLE overlapping_turns AS
WITH found AS (
    SELECT
        s.anomaly,
        d.cluster,
        d.topic,
        d.subscription,
        d.partition,
        IF(s.by_key, d.key, NULL) AS key,
        d.consumer,
        d.incarnation,
        min(epoch_us(d.received_at)) AS first_at,
        max(epoch_us(d.received_at)) AS last_at
    FROM deliveries d JOIN subscriptions s USING (cluster, subscription)
    WHERE d.key IS NOT NULL OR NOT s.by_key
    GROUP BY ALL
)
SELECT *
FROM found f
WHERE EXISTS (
    FROM found o
    WHERE (o.anomaly, o.cluster, o.topic, o.subscription) = (f.anomaly, f.cluster, f.topic, f.subscription)
        AND o.partition IS NOT DISTINCT FROM f.partition
        AND o.key IS NOT DISTINCT FROM f.key
        AND (o.consumer IS DISTINCT FROM f.consumer OR o.incarnation IS DISTINCT FROM f.incarnation)
        AND o.first_at < f.last_at
        AND f.first_at < o.last_at
);
