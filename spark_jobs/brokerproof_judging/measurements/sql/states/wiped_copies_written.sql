-- The messages that were acked in a segment after each node that held it at first had been wiped and was back. `wipes` has
-- the times at which a fault had wiped a node, and at which the node was back.
WITH held AS (
    SELECT cluster, topic, partition, segment, unnest(holders) AS node, "at" AS seen
    FROM copies
    QUALIFY seen = min(seen) OVER (PARTITION BY cluster, topic, partition, segment)
),
of_nodes AS (
    SELECT h.cluster, h.topic, h.partition, h.segment, h.node, max(w.back) AS back
    FROM held h LEFT JOIN wipes w ON w.node = h.node AND w.since > h.seen
    GROUP BY ALL
),
wiped AS (
    SELECT cluster, topic, partition, segment, max(back) AS since
    FROM of_nodes
    GROUP BY ALL
    HAVING count(back) = count(*)
)
SELECT count(*) AS times, first(p.producer || '/' || p.seq || ' in ' || p.segment) AS example
FROM publishes p JOIN wiped w USING (cluster, topic, partition, segment)
WHERE p.outcome = 'acked' AND p.sent_at > w.since
