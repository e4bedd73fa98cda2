-- A message was delivered again from the same position after an ack of an earlier delivery was confirmed.
SELECT
    who, number, topic, cluster, subscription,
    'ack_confirmed' AS cause,
    concat('delivered again ', again_confirmed, ' time(s) after an ack of it was confirmed') AS detail
FROM subscription_facts
WHERE again_confirmed > 0
