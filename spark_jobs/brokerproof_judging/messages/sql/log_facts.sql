-- One row per published message and cluster of the topology, and per phantom and cluster that stores it: the publish,
-- the stored copies, and the proofs about the log.
CREATE TABLE log_facts AS
WITH
-- Every cluster for every home, including clusters that a message did not have to reach: a published message that is
-- found there is no phantom.
destinations AS (
    SELECT
        topic,
        home,
        cluster,
        cluster = home OR (home, topic, cluster) IN (FROM replicas) AS required
    FROM (SELECT DISTINCT topic, home FROM published),
        (SELECT name AS cluster FROM clusters UNION SELECT home FROM published)
),
expected AS (
    SELECT p.*, d.cluster, d.required
    FROM published p JOIN destinations d USING (topic, home)
),
-- If a reader connected again and read a position twice, this is one copy.
found AS (
    SELECT
        who,
        number,
        topic,
        cluster,
        list(DISTINCT {partition: partition, segment: segment, "offset": "offset", batch_index: batch_index})
            AS stored_positions,
        min(payload_hash) AS found_payload_hash,
        max(payload_hash) AS other_found_payload_hash,
        min({key: key}) AS found_key,
        max({key: key}) AS other_found_key
    FROM stored
    GROUP BY who, number, topic, cluster
),
-- The clusters that store a message, and one subscription that got it. A message that was seen must exist, even if the
-- outcome of its attempts is unknown. Only an ack names a partition, so a message without an ack belongs to the
-- partition in which it was seen.
stored_in AS (
    SELECT who, number, topic, list(DISTINCT cluster ORDER BY cluster) AS storing_clusters, min(partition) AS partition
    FROM stored
    GROUP BY who, number, topic
),
delivered_to AS (
    SELECT
        who,
        number,
        topic,
        min(concat(subscription, ' in ', cluster)) AS getting_subscription,
        min(partition) AS partition
    FROM deliveries
    GROUP BY who, number, topic
),
-- The clusters that delivered a message from logs that were all read to their ends. If such a log does not hold the
-- message now, it has lost the message.
delivered_from_read_logs AS (
    SELECT d.who, d.number, d.topic, d.cluster
    FROM deliveries d
    LEFT JOIN log_proofs l ON (l.cluster, l.topic, l.partition) = (d.cluster, d.topic, d.partition)
    GROUP BY d.who, d.number, d.topic, d.cluster
    HAVING bool_and(coalesce(l.read_to_end, false))
),
facts AS (
    SELECT
        who,
        number,
        topic,
        cluster,
        e.* EXCLUDE (who, number, topic, cluster, partition, attempts),
        coalesce(e.attempts, 0) AS attempts,
        f.stored_positions,
        coalesce(len(f.stored_positions), 0)::INT AS copies,
        -- The first copy in the message's own partition, or else in the lowest partition.
        coalesce(
            list_min(list_filter(f.stored_positions, lambda copy: copy.partition = e.partition)),
            list_min(f.stored_positions)
        ) AS first_copy,
        coalesce(e.partition, list_min(f.stored_positions).partition, s.partition, t.partition) AS partition,
        s.storing_clusters,
        t.getting_subscription,
        f.found_payload_hash,
        f.other_found_payload_hash,
        f.found_key,
        f.other_found_key
    FROM expected e
    FULL JOIN found f USING (who, number, topic, cluster)
    LEFT JOIN stored_in s USING (who, number, topic)
    LEFT JOIN delivered_to t USING (who, number, topic)
),
-- Messages at their homes, if the log of any partition there was not read to its end.
doubtful AS (
    FROM facts SEMI JOIN (FROM log_proofs WHERE NOT read_to_end) USING (cluster, topic)
    WHERE cluster = home
),
-- Each message that was acked in a log that was not read to its end, with the reason why the log was not.
acked_unread AS (
    SELECT a.who, a.number, a.topic, a.cluster, min(l.read_why) AS read_why
    FROM (SELECT who, number, topic, cluster, unnest(acked_partitions) AS partition FROM doubtful) a
    JOIN log_proofs l USING (cluster, topic, partition)
    WHERE NOT l.read_to_end
    GROUP BY a.who, a.number, a.topic, a.cluster
),
-- Only for homes. `passed`: every ack of a message named a position, and the reader passed all of these positions.
-- `unreadable`: one of these positions is in a part that cannot be read.
acked_places AS (
    SELECT
        a.who,
        a.number,
        a.topic,
        a.cluster,
        count(*) = any_value(acks)
            AND bool_and(coalesce(l.read_to_end OR is_before(place, l.passed_segment, l.passed_offset), false))
            AS passed,
        bool_or(EXISTS (
            FROM unreadable_parts u
            WHERE (u.cluster, u.topic, u.partition) = (a.cluster, a.topic, a.place.partition)
                AND NOT is_before(place, u.segment, u."offset")
                AND is_before(place, u.end_segment, u.end_offset)
        )) AS unreadable
    FROM (SELECT who, number, topic, cluster, acks, unnest(acked_positions) AS place FROM doubtful) a
    LEFT JOIN log_proofs l ON (l.cluster, l.topic, l.partition) = (a.cluster, a.topic, a.place.partition)
    GROUP BY a.who, a.number, a.topic, a.cluster
)
SELECT
    f.*,
    '' AS subscription,
    -- Order is judged by the positions of first copies. Phantoms have no order. A message whose first known copy
    -- comes after an unreadable part has none either, because that part may hold an earlier copy.
    IF(
        f.outcome IS NULL OR EXISTS (
            FROM unreadable_parts p
            WHERE (p.cluster, p.topic, p.partition) = (f.cluster, f.topic, f.first_copy.partition)
                AND NOT is_before(f.first_copy, p.segment, p."offset")
        ),
        NULL,
        f.first_copy
    ) AS ordered_copy,
    f.required AND f.copies = 0 AND coalesce(
        f.outcome = 'acked'
        OR (f.outcome = 'unknown' AND (len(f.storing_clusters) > 0 OR f.getting_subscription IS NOT NULL)),
        false
    ) AS missing,
    coalesce(l.read_to_end, false) AND u.who IS NULL AS read_to_end,
    coalesce(a.passed AND NOT a.unreadable, false) AS read_past_acks,
    coalesce(a.unreadable, false) AS acked_unreadable,
    coalesce(u.read_why, l.read_why, 'no step left a record of it') AS read_why,
    g.who IS NOT NULL AS had_got_there,
    -- A drain proves only messages before the end of the log at the time of the drain. If the home has no copy, the
    -- acked positions show where the message was. Without them, it may be anywhere in a home that was not read.
    coalesce(r.replicated, false) AND coalesce(
        is_before(
            coalesce(
                h.first_copy,
                list_max(list_filter(f.acked_positions, lambda place: place.partition = f.partition))
            ),
            e.end_segment,
            e.end_offset
        ),
        e.end_segment IS NULL OR coalesce(lh.read_to_end, false)
    ) AS replicated,
    CASE
        WHEN r.replicated IS NULL THEN 'no step left a record of it'
        WHEN r.replicated THEN concat('it drained up to ', e.end_segment, ':', e.end_offset, ' only')
        ELSE r.replicated_why
    END AS replicated_why
FROM facts f
LEFT JOIN log_proofs l ON (l.cluster, l.topic, l.partition) = (f.cluster, f.topic, f.partition)
LEFT JOIN acked_unread u ON (u.who, u.number, u.topic, u.cluster) = (f.who, f.number, f.topic, f.cluster)
LEFT JOIN acked_places a ON (a.who, a.number, a.topic, a.cluster) = (f.who, f.number, f.topic, f.cluster)
LEFT JOIN delivered_from_read_logs g ON (g.who, g.number, g.topic, g.cluster) = (f.who, f.number, f.topic, f.cluster)
LEFT JOIN replication_proofs r ON (r.topic, r.home, r.cluster) = (f.topic, f.home, f.cluster)
LEFT JOIN replication_ends e ON (e.topic, e.home, e.cluster, e.partition) = (f.topic, f.home, f.cluster, f.partition)
LEFT JOIN log_proofs lh ON (lh.cluster, lh.topic, lh.partition) = (f.home, f.topic, f.partition)
-- Only equalities, because with any other condition the join would compare every message with every other message.
LEFT JOIN facts h ON (h.who, h.number, h.topic, h.cluster) = (f.who, f.number, f.topic, f.home)
