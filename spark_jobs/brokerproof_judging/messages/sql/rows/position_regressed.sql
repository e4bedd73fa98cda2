-- When each acked attempt was sent (less the clocks' error) and settled. An attempt is compared with all acks that were
-- settled before it was sent; a difference within the clocks' error does not count. If an attempt was settled before it
-- was sent, its clock was set back. Its true times are not known, so it is left out.
WITH acks AS (
    SELECT * FROM publishes WHERE outcome = 'acked' AND segment IS NOT NULL AND settled_at >= sent_at
),
events AS (
    SELECT 'settled' AS kind, settled_at AS moment, * FROM acks
    UNION ALL
    SELECT 'sent' AS kind, sent_at - clock_error_us() AS moment, * FROM acks
)
SELECT
    kind, cluster, topic, partition, moment // second_us() AS second, moment, who, number, segment, "offset", batch_index
FROM events
