-- The second count of `messages`: by place, all rows, and those of acked messages, of other runs, and with an unknown
-- anomaly or an illegal one that was not found.
SELECT
    cluster,
    subscription,
    count(*) AS rows,
    count(*) FILTER (outcome = 'acked') AS acked,
    count(*) FILTER (run_id IS DISTINCT FROM judged_run()) AS "foreign",
    count(*) FILTER (
        len(list_filter(anomalies, lambda name: name IS NULL OR name NOT IN known())) > 0
        OR len(list_filter(illegal, lambda name: NOT coalesce(list_contains(anomalies, name), false))) > 0
    ) AS contradictory
FROM messages
GROUP BY cluster, subscription
