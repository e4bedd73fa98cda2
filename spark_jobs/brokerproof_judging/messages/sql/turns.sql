-- The overlapping turns, and the turn of each of their consumers within each period. A delivery is within a period if
-- the message was due, and was received, in the period. No message is sent before it is due.
WITH due AS (
    SELECT producer, seq, topic, epoch_us(min(scheduled_at)) AS due_at FROM publishes GROUP BY producer, seq, topic
)
SELECT *, NULL AS since, NULL AS until FROM overlapping_turns
UNION ALL BY NAME
SELECT
    t.* EXCLUDE (first_at, last_at),
    p.since,
    p.until,
    min(epoch_us(d.received_at)) AS first_at,
    max(epoch_us(d.received_at)) AS last_at
FROM overlapping_turns t
JOIN periods p USING (cluster, topic, subscription, partition)
JOIN deliveries d
    ON (d.cluster, d.topic, d.subscription, d.partition) = (t.cluster, t.topic, t.subscription, t.partition)
    AND d.consumer IS NOT DISTINCT FROM t.consumer
    AND d.incarnation IS NOT DISTINCT FROM t.incarnation
    AND (t.key IS NULL OR d.key = t.key)
    AND epoch_us(d.received_at) - clock_error_us() >= p.since
    AND epoch_us(d.received_at) + clock_error_us() <= p.until
JOIN due ON (due.producer, due.seq, due.topic) = (d.producer, d.seq, d.topic)
    AND due.due_at - clock_error_us() >= p.since
GROUP BY ALL
