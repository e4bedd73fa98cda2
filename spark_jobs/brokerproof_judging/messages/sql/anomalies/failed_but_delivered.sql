-- A message was delivered although every attempt to publish it failed for certain, or it was not sent. Jepsen calls
-- this an aborted read.
SELECT
    who, number, topic, cluster, subscription,
    IF(outcome = 'failed', 'failed_for_certain', 'not_sent') AS cause,
    concat(not_written_text(outcome, attempts), ', and it was delivered to ', first_delivery.consumer) AS detail
FROM subscription_facts
WHERE outcome IN ('failed', 'not_sent') AND deliveries > 0
