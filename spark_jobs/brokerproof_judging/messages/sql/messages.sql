-- The rows of the table `messages`.
WITH by_place AS (
    SELECT
        who, number, topic, cluster, subscription,
        list(anomaly ORDER BY anomaly) AS anomalies,
        list(anomaly ORDER BY anomaly) FILTER (NOT legal) AS illegal
    FROM findings
    GROUP BY who, number, topic, cluster, subscription
)
SELECT
    run_id() AS run_id,
    p.cluster,
    p.topic,
    p.partition,
    nullif(p.subscription, '') AS subscription,
    p.home,
    producer_of(p.who) AS producer,
    seq_of(p.who, p.number) AS seq,
    p.key,
    p.outcome,
    p.attempts,
    p.scheduled_at,
    p.sent_at,
    p.settled_at,
    p.copies,
    p.deliveries,
    p.first_received_at,
    p.segment,
    p."offset",
    p.batch_index,
    p.recovered,
    coalesce(f.anomalies, []) AS anomalies,
    coalesce(f.illegal, []) AS illegal
FROM places p LEFT JOIN by_place f USING (who, number, topic, cluster, subscription)
