-- A message was delivered to a subscription whose consumers write outputs and that drained, and no output is of it.
SELECT
    who, number, topic, cluster, subscription,
    'no_output' AS cause,
    concat('delivered ', deliveries, ' time(s), first to ', consumer, ', and no consumer wrote an output of it') AS detail
FROM missing_outputs
WHERE drained AND faults_undone()
