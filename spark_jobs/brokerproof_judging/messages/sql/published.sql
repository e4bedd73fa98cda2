-- One row per message that was due, with the result of its attempts. A message that a full `max_pending` held back
-- until the end has no attempt and the outcome `not_sent`. A message with two homes, payloads or keys contradicts the
-- load's record of itself; publish_record.py reports it.
CREATE TABLE published AS
SELECT
    who,
    number,
    topic,
    min(cluster) AS home,
    max(cluster) AS other_home,
    min(key) AS key,
    max(key) AS other_key,
    count_if(outcome IS DISTINCT FROM 'not_sent')::INT AS attempts,
    CASE
        WHEN count_if(outcome = 'acked') > 0 THEN 'acked'
        WHEN count_if(outcome = 'not_sent') = count(*) THEN 'not_sent'
        WHEN count_if(outcome IN ('failed', 'not_sent')) = count(*) THEN 'failed'
        ELSE 'unknown'
    END AS outcome,
    -- Only an ack names a partition. Positions of two partitions do not compare, so a message belongs to one of them.
    min(partition) FILTER (outcome = 'acked') AS partition,
    count_if(outcome = 'acked') AS acks,
    coalesce(list(DISTINCT partition) FILTER (outcome = 'acked'), []) AS acked_partitions,
    -- A deduplicated retry is acked without a position.
    coalesce(
        list({partition: partition, segment: segment, "offset": "offset", batch_index: batch_index})
            FILTER (outcome = 'acked' AND segment IS NOT NULL),
        []
    ) AS acked_positions,
    min(payload_hash) AS payload_hash,
    max(payload_hash) AS other_payload_hash,
    min(scheduled_at) AS scheduled_at,
    -- From the last acked attempt, because the message must exist from then on; or else from the first attempt.
    coalesce(max(sent_at) FILTER (outcome = 'acked'), min(sent_at)) AS sent_at,
    min(settled_at) FILTER (outcome = 'acked') AS acked_at,
    max(settled_at) FILTER (outcome = 'acked') AS last_acked_at,
    coalesce(min(settled_at) FILTER (outcome = 'acked'), max(settled_at)) AS settled_at
FROM publishes
GROUP BY who, number, topic
