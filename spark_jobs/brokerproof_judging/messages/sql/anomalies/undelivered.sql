-- A stored message was never delivered to a subscription that had to get it and that drained.
SELECT
    who, number, topic, cluster, subscription,
    'never_delivered' AS cause,
    concat('stored at ', position_text(first_copy), ' and never delivered to ', subscription, ', which drained')
        AS detail
FROM subscription_facts
WHERE missing AND drained AND faults_undone()
