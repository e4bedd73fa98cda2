-- By fault, the messages that no cluster holds and that have an anomaly in a log: lost, or without proof.
WITH missing AS (
    SELECT
        any_value(home) AS home,
        coalesce(epoch_us(any_value(sent_at)), 0) AS sent,
        epoch_us(any_value(settled_at) FILTER (outcome = 'acked')) AS acked,
        flatten(list(anomalies)) AS anomalies
    -- Few messages have an anomaly, so only their rows are grouped.
    FROM messages SEMI JOIN (SELECT producer, seq FROM messages WHERE len(anomalies) > 0) USING (producer, seq)
    WHERE subscription IS NULL
    GROUP BY producer, seq
    HAVING max(copies) = 0
),
judged AS (
    SELECT
        *,
        list_contains(anomalies, 'lost') AS is_lost,
        -- An unreadable message may or may not exist.
        list_has_any(anomalies, ['unproven', 'unreadable']) AS is_unproven,
        EXISTS (FROM destroyed d WHERE d.cluster = home AND sent < d.effect) AS is_excused
    FROM missing
)
SELECT
    fault,
    count(*) FILTER (is_lost AND sent < effect) AS lost,
    count(*) FILTER (is_lost AND sent >= effect AND NOT is_excused) AS lost_later,
    min(acked) FILTER (is_lost) AS oldest,
    count(*) FILTER (is_unproven AND sent < effect) AS unproven,
    count(*) FILTER (is_unproven AND sent >= effect AND NOT is_excused) AS unproven_later
FROM effects LEFT JOIN judged ON true
GROUP BY fault
