-- A message is stored, or was delivered, with another payload or another key than was published.
WITH found AS (
    SELECT *, 'stored_payload' AS payload_cause, concat('stored at ', position_text(first_copy)) AS where_found
    FROM log_facts
    UNION ALL BY NAME
    SELECT
        *, 'delivered_payload' AS payload_cause, concat('delivered to ', first_delivery.consumer) AS where_found
    FROM subscription_facts
)
SELECT
    who, number, topic, cluster, subscription,
    payload_cause AS cause,
    concat(where_found, ' with another payload than was published') AS detail
FROM found
WHERE found_payload_hash NOT IN (payload_hash, other_payload_hash)
    OR other_found_payload_hash NOT IN (payload_hash, other_payload_hash)
UNION ALL
SELECT
    who, number, topic, cluster, subscription,
    'key' AS cause,
    concat(where_found, ' with another key than was published') AS detail
FROM found
WHERE outcome IS NOT NULL
    AND (is_other_key(found_key, key, other_key) OR is_other_key(other_found_key, key, other_key))
