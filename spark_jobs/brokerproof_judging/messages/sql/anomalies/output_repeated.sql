-- Consumers of a subscription wrote two outputs of a message or more.
SELECT
    who, number, topic, cluster, subscription,
    'written_again' AS cause,
    concat(
        'written ', count(*), ' times, ', (max(written_at) - min(written_at)) // 1000, ' ms from the first to the last, by ',
        string_agg(DISTINCT consumer, ', ' ORDER BY consumer)
    ) AS detail
FROM outputs
SEMI JOIN subscription_facts USING (who, number, topic, cluster, subscription)
GROUP BY who, number, topic, cluster, subscription
HAVING count(*) > 1
