-- Every attempt to publish a message failed for certain, and it was delivered. Jepsen calls this an aborted read.
SELECT
    who, number, topic, cluster, subscription,
    'failed_for_certain' AS cause,
    concat('its ', attempts, ' attempt(s) failed for certain, and it was delivered to ', first_delivery.consumer)
        AS detail
FROM subscription_facts
WHERE outcome = 'failed' AND deliveries > 0
