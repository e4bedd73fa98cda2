-- The positions from which a message was delivered although the subscription's cluster does not store it there. Each
-- has its first and last delivery, and whether the log of its partition was read to its end.
CREATE TABLE delivered_elsewhere AS
SELECT
    d.who,
    d.number,
    d.topic,
    d.cluster,
    d.subscription,
    d.partition,
    d.segment,
    d."offset",
    d.batch_index,
    min(d.received_at) AS first_at,
    max(d.received_at) AS last_at,
    coalesce(l.read_to_end, false) AS read_to_end
FROM deliveries d
ANTI JOIN stored s USING (who, number, topic, cluster, partition, segment, "offset", batch_index)
LEFT JOIN log_proofs l ON (l.cluster, l.topic, l.partition) = (d.cluster, d.topic, d.partition)
WHERE d.segment IS NOT NULL
GROUP BY ALL;

-- One row per message and subscription that had to get it or got it: the publish, the copies in the subscription's
-- cluster, the deliveries, and the proof of the drain.
CREATE TABLE subscription_facts AS
WITH
-- A delivery is a repetition (`again`) if it is not the first one from its position. If an ack was confirmed less than
-- the clocks' error before a delivery, it is not proven that the ack came first.
from_positions AS (
    SELECT
        *,
        row_number() OVER same_position > 1 AS again,
        row_number() OVER same_incarnation = 1 AS first_of_incarnation,
        coalesce(
            min(acknowledged_at) OVER (same_position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                + clock_error_us() < received_at,
            false
        ) AS confirmed
    FROM deliveries
    WINDOW same_position AS (
        PARTITION BY who, number, topic, cluster, subscription, partition, segment, "offset", batch_index
        ORDER BY received_at, arrival, consumer NULLS FIRST, incarnation NULLS FIRST
    ),
    -- Within an incarnation, deliveries are ordered by arrival, because the clock may have been set back.
    same_incarnation AS (
        PARTITION BY who, number, topic, cluster, subscription, consumer, incarnation ORDER BY arrival, received_at
    )
),
-- The first delivery of a message is the earliest among the first deliveries to each incarnation; at equal times, the
-- one with the lower arrival.
delivered AS (
    SELECT
        who,
        number,
        topic,
        cluster,
        subscription,
        count(*)::INT AS deliveries,
        count_if(NOT again)::INT AS copies,
        count_if(NOT again AND segment IS NOT NULL)::INT AS positions,
        max(received_at) FILTER (NOT again AND segment IS NOT NULL) AS last_position_at,
        count_if(again AND NOT confirmed)::INT AS again_unconfirmed,
        count_if(again AND confirmed)::INT AS again_confirmed,
        min({
            received_at: received_at, arrival: arrival, consumer: consumer, incarnation: incarnation,
            partition: partition, segment: segment, "offset": "offset", batch_index: batch_index
        }) FILTER (first_of_incarnation) AS first_delivery,
        min(payload_hash) AS found_payload_hash,
        max(payload_hash) AS other_found_payload_hash,
        min({key: key}) AS found_key,
        max({key: key}) AS other_found_key
    FROM from_positions
    GROUP BY who, number, topic, cluster, subscription
),
-- Subscriptions that the scenario does not have are included, but do not have to get any message.
places AS (
    SELECT cluster, subscription, true AS has_to_get, moved_from FROM subscriptions
    UNION ALL
    SELECT DISTINCT cluster, subscription, false, NULL
    FROM deliveries ANTI JOIN subscriptions USING (cluster, subscription)
),
before_move AS (
    SELECT who, number, topic, cluster, subscription
    FROM delivered
    WHERE cluster IN (SELECT moved_from FROM subscriptions)
),
expected AS (
    SELECT
        l.who,
        l.number,
        l.topic,
        l.cluster,
        p.subscription,
        l.partition,
        l.home,
        l.key,
        l.other_key,
        l.outcome,
        l.attempts,
        l.scheduled_at,
        l.sent_at,
        l.settled_at,
        l.last_acked_at,
        l.payload_hash,
        l.other_payload_hash,
        l.first_copy,
        -- A message that a subscription got before it moved has no first delivery in the other cluster.
        IF(b.cluster IS NULL, l.ordered_copy, NULL) AS ordered_copy,
        l.copies AS stored_copies,
        l.required AS required_in_log,
        -- A subscription that moved does not have to get again a message that it got before.
        p.has_to_get AND b.cluster IS NULL AS has_to_get
    FROM log_facts l
    JOIN places p ON p.cluster = l.cluster
    LEFT JOIN before_move b
        ON (b.who, b.number, b.topic) = (l.who, l.number, l.topic)
        AND (b.cluster, b.subscription) = (p.moved_from, p.subscription)
    WHERE l.outcome IS NOT NULL
),
facts AS (
    SELECT
        who,
        number,
        topic,
        cluster,
        subscription,
        e.* EXCLUDE (who, number, topic, cluster, subscription, partition, required_in_log, has_to_get),
        coalesce(e.partition, d.first_delivery.partition) AS partition,
        coalesce(e.has_to_get AND e.required_in_log, false) AS required,
        coalesce(e.has_to_get AND e.stored_copies > 0, false) AS stored_for_it,
        coalesce(d.deliveries, 0) AS deliveries,
        coalesce(d.copies, 0) AS copies,
        coalesce(d.positions, 0) AS positions,
        d.last_position_at,
        coalesce(d.again_unconfirmed, 0) AS again_unconfirmed,
        coalesce(d.again_confirmed, 0) AS again_confirmed,
        d.first_delivery,
        d.found_payload_hash,
        d.other_found_payload_hash,
        d.found_key,
        d.other_found_key
    FROM expected e FULL JOIN delivered d USING (who, number, topic, cluster, subscription)
)
SELECT
    f.*,
    f.stored_for_it AND f.deliveries = 0 AS missing,
    has_drained(d.drained, d.end_segment, d.end_offset, f.first_copy) AS drained,
    drain_text(d.drained, d.end_segment, d.end_offset, d.drained_why) AS drained_why
FROM facts f
-- The proof for a missing message is the drain of the partition that stores it.
LEFT JOIN drain_proofs d
    ON (d.cluster, d.topic, d.partition, d.subscription)
        = (f.cluster, f.topic, coalesce(f.first_copy.partition, f.partition), f.subscription)
WHERE f.required OR f.stored_for_it OR f.deliveries > 0
