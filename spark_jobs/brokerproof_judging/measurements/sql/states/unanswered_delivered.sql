-- The messages whose producers never got an answer, and that a subscription got.
SELECT count(*) AS times, first(producer || '/' || seq ORDER BY producer, seq) AS example
FROM (
    SELECT producer, seq
    FROM publishes
    GROUP BY ALL
    HAVING bool_or(outcome = 'unknown') AND NOT bool_or(outcome = 'acked')
) p
WHERE EXISTS (SELECT 1 FROM deliveries d WHERE (d.producer, d.seq) = (p.producer, p.seq))
