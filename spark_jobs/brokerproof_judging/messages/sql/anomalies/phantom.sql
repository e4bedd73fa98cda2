-- A message is stored or was delivered although no producer published it.
SELECT
    who, number, topic, cluster, subscription,
    IF(is_nameless(who), 'no_identity', 'never_published') AS cause,
    concat('stored at ', position_text(first_copy), ' though nobody published it to this topic') AS detail
FROM log_facts
WHERE outcome IS NULL
UNION ALL
SELECT
    who, number, topic, cluster, subscription,
    IF(is_nameless(who), 'no_identity', 'never_published') AS cause,
    concat('delivered to ', first_delivery.consumer, ' though nobody published it to this topic') AS detail
FROM subscription_facts
WHERE outcome IS NULL
