-- The events of a run's time steps: acks, outcomes, deliveries and first deliveries, with latencies in µs.
CREATE VIEW measured AS
WITH events AS (
    SELECT 'acks' AS what, cluster, NULL AS subscription, epoch_us(settled_at) AS moment, NULL::BIGINT AS latency
    FROM messages
    WHERE subscription IS NULL AND cluster = home AND outcome = 'acked'
    UNION ALL
    SELECT
        outcome,
        cluster,
        NULL,
        epoch_us(scheduled_at),
        CASE WHEN outcome = 'acked' THEN epoch_us(settled_at) - epoch_us(scheduled_at) END
    FROM messages
    WHERE subscription IS NULL AND cluster = home
    UNION ALL
    SELECT
        'receipts',
        cluster,
        subscription,
        epoch_us(first_received_at),
        epoch_us(first_received_at) - epoch_us(scheduled_at)
    FROM messages
    WHERE subscription IS NOT NULL
    UNION ALL
    SELECT 'deliveries', cluster, subscription, epoch_us(received_at), NULL FROM deliveries
)
SELECT
    {
        'what': what, 'cluster': cluster, 'subscription': subscription, 'step': (moment - start()) // step_us()
    } AS subject,
    latency AS value,
    -- The series do not show how many events have a latency.
    NULL::BOOLEAN AS is_ended,
    count(*) AS count
FROM events
GROUP BY ALL
