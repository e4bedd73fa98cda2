-- The rows of `messages` by their anomalies, with the first rows of each group that may break an expectation. They are
-- sorted, so that every evaluation shows the same rows.
SELECT
    anomalies,
    illegal,
    count(*) AS rows,
    min({
        'cluster': coalesce(cluster, ''),
        'subscription': coalesce(subscription, ''),
        'producer': coalesce(producer, ''),
        'seq': coalesce(seq, -1),
        'row': m
    }, most_samples()) FILTER (anomalies IS NULL OR illegal IS NULL OR len(anomalies) + len(illegal) > 0) AS samples
FROM messages m
GROUP BY anomalies, illegal
