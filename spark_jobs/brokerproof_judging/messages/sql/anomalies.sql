-- The rows of the table `anomalies`.
SELECT
    run_id() AS run_id,
    anomaly,
    legal,
    cluster,
    topic,
    partition,
    nullif(subscription, '') AS subscription,
    producer_of(who) AS producer,
    seq_of(who, number) AS seq,
    key,
    cause,
    detail
FROM findings
