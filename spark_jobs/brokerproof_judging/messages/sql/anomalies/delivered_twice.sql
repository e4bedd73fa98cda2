-- A message was delivered again from the same position before an ack of an earlier delivery was confirmed.
SELECT
    who, number, topic, cluster, subscription,
    'ack_not_confirmed' AS cause,
    concat('delivered again ', again_unconfirmed, ' time(s) before an ack of it was confirmed') AS detail
FROM subscription_facts
WHERE again_unconfirmed > 0
