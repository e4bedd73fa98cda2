-- A message was delivered from a position, but the log, which was read to its end, holds it only at other positions. A
-- message that the log does not hold at all is `lost` or `not_replicated` instead.
SELECT
    e.who, e.number, e.topic, e.cluster, e.subscription,
    'stored_elsewhere' AS cause,
    concat(
        'delivered from ', position_text(e), ', where the log of ', e.cluster,
        ' does not hold it; it is first stored at ', position_text(f.first_copy)
    ) AS detail
FROM delivered_elsewhere e
JOIN subscription_facts f USING (who, number, topic, cluster, subscription)
WHERE f.stored_copies > 0 AND e.read_to_end
