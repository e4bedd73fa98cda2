-- Every attempt to publish a message failed for certain, and it is stored.
SELECT
    who, number, topic, cluster, subscription,
    'failed_for_certain' AS cause,
    concat('its ', attempts, ' attempt(s) failed for certain, and it is stored at ', position_text(first_copy))
        AS detail
FROM log_facts
WHERE outcome = 'failed' AND copies > 0
