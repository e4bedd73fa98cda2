-- Messages that a subscription got whose consumers write outputs, and that have no output there. A delivery below the end
-- of a drain was acknowledged, so its consumers have finished with it.
CREATE VIEW missing_outputs AS
SELECT
    f.who, f.number, f.topic, f.cluster, f.subscription, f.deliveries,
    f.first_delivery.consumer AS consumer,
    has_drained(d.drained, d.end_segment, d.end_offset, f.first_delivery) AS drained,
    drain_text(d.drained, d.end_segment, d.end_offset, d.drained_why) AS drained_why
FROM subscription_facts f
JOIN subscriptions s USING (cluster, subscription)
ANTI JOIN outputs o USING (who, number, topic, cluster, subscription)
LEFT JOIN drain_proofs d
    ON (d.cluster, d.topic, d.partition, d.subscription)
        = (f.cluster, f.topic, f.first_delivery.partition, f.subscription)
WHERE s.writes_outputs AND f.deliveries > 0;
