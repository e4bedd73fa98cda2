-- A message is stored, or was delivered, with another payload than was published.
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
    'delivered_payload' AS cause,
    concat('delivered to ', first_delivery.consumer, ' with another payload than was published') AS detail
FROM subscription_facts
WHERE outcome IS NOT NULL AND (
    found_payload_hash NOT IN (payload_hash, other_payload_hash)
    OR other_found_payload_hash NOT IN (payload_hash, other_payload_hash)
)
