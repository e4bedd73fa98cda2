-- The segments whose holders changed, with acked messages on the side of the new ones. A system changes the holders of a
-- segment that is written to when a write to one of them fails, so messages were on their way.
SELECT count(*) AS times, first(segment || ' from offset ' || first_offset ORDER BY segment) AS example
FROM (SELECT DISTINCT cluster, topic, partition, segment, first_offset FROM copies WHERE first_offset > 0) c
WHERE EXISTS (
    SELECT 1 FROM publishes p
    WHERE
        (p.cluster, p.topic, p.partition, p.segment) = (c.cluster, c.topic, c.partition, c.segment)
        AND p.outcome = 'acked'
        AND p."offset" >= c.first_offset
)
