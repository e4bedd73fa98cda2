-- A message that must exist, because it was acked or seen, is not in the log of its home. That log was read to its end,
-- or past all positions that the message's acks named.
SELECT
    who, number, topic, cluster, subscription,
    CASE
        WHEN getting_subscription IS NOT NULL THEN 'delivered_and_gone'
        WHEN len(storing_clusters) > 0 THEN 'replicated_and_gone'
        WHEN len(acked_positions) > 0 THEN 'acked_at_position'
        ELSE 'acked_without_position'
    END AS cause,
    concat(
        proof_of_existence_text(outcome, acked_at, home, getting_subscription, storing_clusters),
        ', and not in the log of ', cluster, ', which was read ',
        IF(read_to_end, 'to its end', 'past all positions that its acks named')
    ) AS detail
FROM log_facts
WHERE missing AND cluster = home AND (read_to_end OR read_past_acks) AND faults_undone()
