-- Every message at every place that it had to reach or was found at: a cluster's log, or a subscription. Times are
-- microseconds since the epoch.
WITH elsewhere AS (
    SELECT
        who, number, topic, cluster, subscription,
        min(first_at) AS elsewhere_from,
        max(last_at) FILTER (read_to_end) AS elsewhere_until
    FROM delivered_elsewhere
    GROUP BY who, number, topic, cluster, subscription
)
SELECT
    who,
    number,
    topic,
    cluster,
    subscription,
    partition,
    home,
    key,
    outcome,
    attempts,
    scheduled_at,
    sent_at,
    settled_at,
    last_acked_at,
    copies,
    0 AS deliveries,
    NULL AS first_received_at,
    NULL AS last_position_at,
    first_copy.segment,
    first_copy."offset",
    first_copy.batch_index,
    coalesce(outcome = 'unknown', false) AND copies > 0 AS recovered,
    ordered_copy.partition AS stored_partition,
    ordered_copy.segment AS stored_segment,
    ordered_copy."offset" AS stored_offset,
    ordered_copy.batch_index AS stored_batch_index,
    NULL AS consumer,
    NULL AS incarnation,
    NULL AS arrival,
    NULL AS elsewhere_from,
    NULL AS elsewhere_until
FROM log_facts
WHERE required OR copies > 0
UNION ALL
SELECT
    who,
    number,
    topic,
    cluster,
    subscription,
    partition,
    home,
    key,
    outcome,
    attempts,
    scheduled_at,
    sent_at,
    settled_at,
    last_acked_at,
    copies,
    deliveries,
    first_delivery.received_at AS first_received_at,
    last_position_at,
    first_delivery.segment,
    first_delivery."offset",
    first_delivery.batch_index,
    false,
    ordered_copy.partition,
    ordered_copy.segment,
    ordered_copy."offset",
    ordered_copy.batch_index,
    first_delivery.consumer,
    first_delivery.incarnation,
    first_delivery.arrival,
    elsewhere_from,
    elsewhere_until
FROM subscription_facts LEFT JOIN elsewhere USING (who, number, topic, cluster, subscription)
