-- A message that must exist is missing in a log or at a subscription, and nothing proves that it is lost, not
-- replicated or undelivered.
SELECT
    who, number, topic, cluster, subscription,
    CASE
        WHEN NOT faults_undone() THEN 'fault_not_undone'
        WHEN NOT read_to_end THEN 'log_not_read_to_end'
        ELSE 'replication_not_drained'
    END AS cause,
    concat(
        proof_of_existence_text(outcome, acked_at, home, getting_subscription, storing_clusters), ', and not found in ', cluster, ', but ',
        CASE
            WHEN NOT faults_undone() THEN 'nothing proves that every fault was undone'
            WHEN NOT read_to_end THEN concat('its log was not read to its end: ', read_why)
            ELSE concat('replication did not drain: ', replicated_why)
        END
    ) AS detail
FROM log_facts
WHERE missing AND NOT (
    faults_undone()
    AND IF(cluster = home, read_to_end OR read_past_acks OR acked_unreadable, read_to_end AND (replicated OR had_got_there))
)
UNION ALL
SELECT
    who, number, topic, cluster, subscription,
    IF(faults_undone(), 'subscription_not_drained', 'fault_not_undone') AS cause,
    concat(
        'stored at ', position_text(first_copy), ' and not delivered to ', subscription, ', but ',
        IF(
            faults_undone(),
            concat('it did not drain: ', drained_why),
            'nothing proves that every fault was undone'
        )
    ) AS detail
FROM subscription_facts
WHERE missing AND NOT (faults_undone() AND drained)
UNION ALL
SELECT
    who, number, topic, cluster, subscription,
    IF(faults_undone(), 'subscription_not_drained', 'fault_not_undone') AS cause,
    concat(
        'delivered to ', subscription, ' without an output, but ',
        IF(
            faults_undone(),
            concat('it did not drain: ', drained_why),
            'nothing proves that every fault was undone'
        )
    ) AS detail
FROM missing_outputs
WHERE NOT (faults_undone() AND drained)
