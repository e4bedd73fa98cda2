-- The messages that a subscription got, and those of them whose outputs are missing, repeated or unproven.
SELECT
    count(*) AS delivered,
    count(*) FILTER (list_contains(anomalies, 'output_missing')) AS missing,
    count(*) FILTER (list_contains(anomalies, 'output_repeated')) AS repeated,
    count(*) FILTER (list_contains(anomalies, 'unproven')) AS unproven
FROM messages SEMI JOIN writing USING (subscription, cluster)
WHERE deliveries > 0
