-- One row per published message and cluster of the topology, and per phantom and cluster that stores it: what was
-- published, what is stored there, and what is proven about the log.
CREATE TABLE log_facts AS
WITH
-- Every cluster for every home, also clusters that a message did not have to reach: a message that turns up there was
-- published and is no phantom.
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
-- A position that was read twice, by a reader that connected again, is one copy.
found AS (
    SELECT
        who,
        number,
        topic,
        cluster,
        list(DISTINCT {partition: partition, ledger_id: ledger_id, entry_id: entry_id, batch_index: batch_index})
            AS stored_positions,
        min(payload_hash) AS found_payload_hash,
        max(payload_hash) AS other_found_payload_hash,
        min({key: key}) AS found_key,
        max({key: key}) AS other_found_key
    FROM stored
    GROUP BY who, number, topic, cluster
),
-- Where a message was seen: the clusters that store it, and one subscription that got it. A message that was seen must
-- exist, even if the outcome of its attempts is unknown.
stored_in AS (
    SELECT who, number, topic, list(DISTINCT cluster ORDER BY cluster) AS storing_clusters
    FROM stored
    GROUP BY who, number, topic
),
delivered_to AS (
    SELECT who, number, topic, min(concat(subscription, ' in ', cluster)) AS getting_subscription
    FROM deliveries
    GROUP BY who, number, topic
),
facts AS (
    SELECT
        who,
        number,
        topic,
        cluster,
        e.* EXCLUDE (who, number, topic, cluster, partition, attempts, required, acked_positions),
        coalesce(e.attempts, 0) AS attempts,
        coalesce(e.required, false) AS required,
        coalesce(e.acked_positions, []) AS acked_positions,
        coalesce(f.stored_positions, []) AS stored_positions,
        coalesce(len(f.stored_positions), 0)::INT AS copies,
        -- In the message's own partition, or else in the lowest one.
        coalesce(
            list_min(list_filter(f.stored_positions, lambda copy: copy.partition = e.partition)),
            list_min(f.stored_positions)
        ) AS first_copy,
        coalesce(e.partition, list_min(f.stored_positions).partition) AS partition,
        f.found_payload_hash,
        f.other_found_payload_hash,
        f.found_key,
        f.other_found_key
    FROM expected e FULL JOIN found f USING (who, number, topic, cluster)
)
SELECT
    f.*,
    '' AS subscription,
    coalesce(s.storing_clusters, []) AS storing_clusters,
    t.getting_subscription,
    f.required AND f.copies = 0 AND coalesce(
        f.outcome = 'acked'
        OR (f.outcome = 'unknown' AND (s.storing_clusters IS NOT NULL OR t.getting_subscription IS NOT NULL)),
        false
    ) AS missing,
    coalesce(l.read_to_end, false) AS read_to_end,
    coalesce(l.read_why, 'no step left a record of it') AS read_why,
    coalesce(r.replicated, false) AS replicated,
    coalesce(r.replicated_why, 'no step left a record of it') AS replicated_why
FROM facts f
LEFT JOIN stored_in s ON (s.who, s.number, s.topic) = (f.who, f.number, f.topic)
LEFT JOIN delivered_to t ON (t.who, t.number, t.topic) = (f.who, f.number, f.topic)
LEFT JOIN log_proofs l ON (l.cluster, l.topic, l.partition) = (f.cluster, f.topic, f.partition)
LEFT JOIN replication_proofs r ON (r.topic, r.home, r.cluster) = (f.topic, f.home, f.cluster)
