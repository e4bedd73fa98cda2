-- A message was delivered to a subscription whose consumers write outputs and that drained, and there is no output of it.
SELECT
    who, number, topic, cluster, subscription,
    'no_output' AS cause,
    concat('delivered ', deliveries, ' time(s), first to ', first_delivery.consumer, ', and nobody wrote an output of it')
        AS detail
FROM subscription_facts
JOIN subscriptions USING (cluster, subscription)
ANTI JOIN outputs USING (who, number, topic, cluster, subscription)
WHERE writes_outputs AND deliveries > 0 AND drained AND faults_undone()
