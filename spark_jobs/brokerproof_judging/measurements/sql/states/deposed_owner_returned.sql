-- The nodes that owned the topic when a fault froze, slowed or cut them off, and that went on after samples had named another
-- owner. `apart` has the times at which such a fault had taken effect and was undone.
WITH owners AS (
    SELECT "at", source, metric, value AS node
    FROM observations
    WHERE (metric = 'owner' OR starts_with(metric, 'owner:')) AND value != ''
)
SELECT count(*) AS times, first(a.node || ' of ' || s.source ORDER BY a.since, a.node) AS example
FROM apart a CROSS JOIN (SELECT DISTINCT source, metric FROM owners) s
WHERE
    a.node = (
        SELECT arg_max(o.node, o."at") FROM owners o
        WHERE (o.source, o.metric) = (s.source, s.metric) AND o."at" <= a.since
    )
    AND EXISTS (
        SELECT 1 FROM owners o
        WHERE
            (o.source, o.metric) = (s.source, s.metric)
            AND o."at" > a.since
            AND o."at" < a.back
            AND o.node != a.node
    )
