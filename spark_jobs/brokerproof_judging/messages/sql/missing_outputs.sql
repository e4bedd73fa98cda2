-- Messages that a subscription got whose consumers write outputs, and that have no output there. A delivery below the end
-- of a drain was acknowledged, so its consumers have finished with it.
CREATE VIEW missing_outputs AS
SELECT
    f.who, f.number, f.topic, f.cluster, f.subscription, f.deliveries,
    f.first_delivery.consumer AS consumer,
    coalesce(d.drained, false) AND coalesce(is_before(f.first_delivery, d.end_segment, d.end_offset), true) AS drained,
    CASE
        WHEN d.drained IS NULL THEN 'no step left a record of it'
        WHEN d.drained THEN concat('it drained up to ', d.end_segment, ':', d.end_offset, ' only')
        ELSE d.drained_why
    END AS drained_why
FROM subscription_facts f
JOIN subscriptions s USING (cluster, subscription)
ANTI JOIN outputs o USING (who, number, topic, cluster, subscription)
LEFT JOIN drain_proofs d
    ON (d.cluster, d.topic, d.partition, d.subscription)
        = (f.cluster, f.topic, f.first_delivery.partition, f.subscription)
WHERE s.writes_outputs AND f.deliveries > 0;
