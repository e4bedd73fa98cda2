-- A message is stored, or was delivered, with another payload or another key than was published.
SELECT
    who, number, topic, cluster, subscription,
    'stored_payload' AS cause,
    concat('stored at ', position_text(first_copy), ' with another payload than was published') AS detail
FROM log_facts
WHERE outcome IS NOT NULL AND (
    found_payload_hash NOT IN (payload_hash, other_payload_hash)
    OR other_found_payload_hash NOT IN (payload_hash, other_payload_hash)
)
UNION ALL
SELECT
    who, number, topic, cluster, subscription,
    'key' AS cause,
    concat('stored at ', position_text(first_copy), ' with another key than was published') AS detail
FROM log_facts
WHERE outcome IS NOT NULL
    AND (is_other_key(found_key, key, other_key) OR is_other_key(other_found_key, key, other_key))
UNION ALL
SELECT
    who, number, topic, cluster, subscription,
    'delivered_payload' AS cause,
    concat('delivered to ', first_delivery.consumer, ' with another payload than was published') AS detail
FROM subscription_facts
WHERE outcome IS NOT NULL AND (
    found_payload_hash NOT IN (payload_hash, other_payload_hash)
    OR other_found_payload_hash NOT IN (payload_hash, other_payload_hash)
)
UNION ALL
SELECT
    who, number, topic, cluster, subscription,
    'key' AS cause,
    concat('delivered to ', first_delivery.consumer, ' with another key than was published') AS detail
FROM subscription_facts
WHERE outcome IS NOT NULL
    AND (is_other_key(found_key, key, other_key) OR is_other_key(other_found_key, key, other_key))
