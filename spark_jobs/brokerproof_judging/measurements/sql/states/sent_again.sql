-- The messages that a second process of their producer sent again.
SELECT count(*) AS times, first(producer || '/' || seq ORDER BY producer, seq) AS example
FROM (
    SELECT producer, seq
    FROM publishes
    WHERE sent_at IS NOT NULL
    GROUP BY ALL
    HAVING min(epoch) != max(epoch)
)
