-- A message that must exist, because it was acked or seen, is not in the log of another cluster that had to hold it.
-- That log was read to its end after replication had drained, or the cluster had delivered the message.
SELECT
    who, number, topic, cluster, subscription,
    IF(had_got_there, 'delivered_and_gone', 'missing_in_replica') AS cause,
    concat(
        proof_of_existence_text(outcome, acked_at, home, getting_subscription, storing_clusters),
        ', and not in the log of ', cluster, ', which was read to its end ',
        IF(had_got_there, 'and had delivered it', 'after replication had drained')
    ) AS detail
FROM log_facts
WHERE missing AND cluster != home AND read_to_end AND (replicated OR had_got_there) AND faults_undone()
