-- The acked messages sent from the beginning of the phases on that each subscription had to get, and those that it
-- never got.
SELECT subscription, count(*) AS acked, count(*) FILTER (deliveries = 0) AS missed
FROM messages
WHERE outcome = 'acked' AND subscription IS NOT NULL AND epoch_us(sent_at) >= (SELECT begins_at FROM beginning)
GROUP BY subscription
