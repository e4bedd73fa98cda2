-- The acked messages that each subscription had to get, and those that it never got.
SELECT subscription, count(*) AS acked, count(*) FILTER (deliveries = 0) AS missed
FROM messages
WHERE outcome = 'acked' AND subscription IS NOT NULL
GROUP BY subscription
