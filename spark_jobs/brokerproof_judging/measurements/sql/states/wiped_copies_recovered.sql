-- The segments that the log left for another one after a node that held their end had been wiped and was back. What closes
-- such a segment may ask a node that has forgotten it. `wipes` has the times at which a fault had wiped a node, and at
-- which the node was back.
WITH ends AS (
    SELECT cluster, topic, partition, segment, unnest(holders) AS node, "at" AS seen
    FROM copies
    QUALIFY
        first_offset = max(first_offset) OVER (PARTITION BY cluster, topic, partition, segment)
        AND seen = min(seen) OVER (PARTITION BY cluster, topic, partition, segment, first_offset)
),
later AS (
    SELECT cluster, topic, partition, segment, min(sent_at) AS first_sent
    FROM publishes
    WHERE outcome = 'acked' AND segment IS NOT NULL
    GROUP BY ALL
)
SELECT count(*) AS times, first(segment || ' of ' || node ORDER BY segment, node) AS example
FROM (
    SELECT DISTINCT e.cluster, e.topic, e.partition, e.segment, e.node
    FROM ends e JOIN wipes w ON w.node = e.node AND w.since > e.seen
    JOIN later l ON (l.cluster, l.topic, l.partition) = (e.cluster, e.topic, e.partition) AND l.segment > e.segment
    GROUP BY e.cluster, e.topic, e.partition, e.segment, e.node, w.back
    HAVING min(l.first_sent) > w.back
)
