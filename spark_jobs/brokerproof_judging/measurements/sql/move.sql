-- The messages that a subscription got before and after it moved to another cluster.
WITH by_message AS (
    SELECT
        coalesce(any_value(deliveries > 0) FILTER (m.subscription = v.subscription AND cluster = before), false) AS had,
        coalesce(any_value(deliveries > 0) FILTER (m.subscription = v.subscription AND cluster = after), false) AS got,
        any_value(outcome) = 'acked' AS acked,
        bool_or(list_contains(anomalies, 'unproven')) FILTER (
            cluster = after AND (m.subscription = v.subscription OR m.subscription IS NULL)
        ) AS unproven
    FROM messages m CROSS JOIN move v
    GROUP BY producer, seq
)
SELECT
    count(*) FILTER (had) AS had,
    count(*) FILTER (had AND got) AS repeated,
    count(*) FILTER (acked AND NOT had AND NOT got) AS missed,
    count(*) FILTER (unproven AND NOT had AND NOT got) AS unproven
FROM by_message
