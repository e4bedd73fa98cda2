-- Consumers of a subscription wrote two outputs or more of a message that they got from one position. Outputs from two
-- positions are no fault of a consumer: the message is stored twice.
WITH written AS (
    SELECT
        who, number, topic, cluster, subscription,
        count(*) AS times,
        min(written_at) AS first_at,
        max(written_at) AS last_at,
        list(consumer) AS consumers
    FROM outputs
    SEMI JOIN subscription_facts USING (who, number, topic, cluster, subscription)
    GROUP BY who, number, topic, cluster, subscription, partition, segment, "offset", batch_index
    HAVING count(*) > 1
)
SELECT
    who, number, topic, cluster, subscription,
    'written_again' AS cause,
    concat(
        'written ', sum(times), ' times, ', max(last_at - first_at) // 1000, ' ms from the first to the last, by ',
        array_to_string(list_sort(list_distinct(flatten(list(consumers)))), ', ')
    ) AS detail
FROM written
GROUP BY who, number, topic, cluster, subscription
