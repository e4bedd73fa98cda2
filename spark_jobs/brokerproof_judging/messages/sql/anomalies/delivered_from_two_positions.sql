-- A message was delivered to one subscription of a cluster from two or more positions.
SELECT
    who, number, topic, cluster, subscription,
    IF(attempts > 1, 'attempted_again', 'attempted_once') AS cause,
    concat('delivered from ', positions, ' positions, after ', attempts, ' attempt(s)') AS detail
FROM subscription_facts
WHERE outcome IS NOT NULL AND positions > 1
