-- What the consumers of each subscription in `measured` received. Times are µs.

CREATE VIEW received AS
SELECT d.*, m.keeps_order FROM deliveries d JOIN measured m USING (cluster, subscription);

-- A message that is delivered from two positions is stored twice, and only a second delivery from one of them is a
-- redelivery.
CREATE VIEW redelivered AS
WITH of_positions AS (
    SELECT
        cluster, subscription, topic, partition, producer, seq,
        count(*) AS deliveries,
        max(redelivery_count) > 0 AS is_counted
    FROM received
    WHERE producer IS NOT NULL AND seq IS NOT NULL
    GROUP BY cluster, subscription, topic, partition, producer, seq, segment, "offset", batch_index
),
of_messages AS (
    SELECT
        subscription,
        bool_or(deliveries > 1) AS came_again,
        bool_or(is_counted) AS is_counted
    FROM of_positions
    GROUP BY cluster, subscription, topic, producer, seq
)
SELECT
    subscription,
    count(*) AS messages,
    count(*) FILTER (came_again OR is_counted) AS redelivered,
    count(*) FILTER (came_again) AS came_again,
    count(*) FILTER (is_counted) AS counted
FROM of_messages
GROUP BY subscription;

-- A message is overtaken if a later message of its producer and key had its last delivery before it, also from another
-- partition. Times of two consumers compare only beyond the clocks' error.
CREATE VIEW overtaken AS
WITH last_deliveries AS (
    SELECT cluster, subscription, topic, producer, key, seq, max(epoch_us(received_at)) AS moment
    FROM received
    WHERE keeps_order AND producer IS NOT NULL AND seq IS NOT NULL
    GROUP BY ALL
),
compared AS (
    SELECT subscription, moment - min(moment) OVER (
        PARTITION BY cluster, subscription, topic, producer, key
        ORDER BY seq ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
    ) AS behind
    FROM last_deliveries
)
SELECT
    subscription,
    count(*) AS messages,
    count(*) FILTER (behind > clock_error_us()) AS overtaken,
    coalesce(max(behind) FILTER (behind > clock_error_us()), 0) AS longest
FROM compared
GROUP BY subscription;

CREATE VIEW consumer_shares AS
WITH counted AS (
    SELECT r.subscription, s.name AS time, r.consumer, count(*) AS deliveries
    FROM received r JOIN spans s ON epoch_us(r.received_at) >= s.start AND epoch_us(r.received_at) < s.until
    GROUP BY ALL
)
SELECT
    subscription,
    time,
    sum(deliveries)::BIGINT AS deliveries,
    count(*) AS consumers,
    max({'deliveries': deliveries, 'consumer': consumer}) AS busiest
FROM counted
GROUP BY subscription, time;
