-- A message was acked at or below a position whose ack was settled before the message was sent. `rows` holds three
-- kinds of rows: an attempt at the time it was `sent` (less the clocks' error), an ack at the time it was `settled`,
-- and the highest position of a log `before` a second. A part holds whole seconds of a log.
WITH ranked AS (
    -- Ranks are numbers that have the same order as the positions.
    SELECT
        *,
        {segment: segment, "offset": "offset", batch_index: batch_index} AS place,
        dense_rank() OVER (ORDER BY segment, "offset", batch_index) AS rank
    FROM rows
),
acked_before AS (
    -- Of events at one time, `sent` comes first, because events at the same time are not before each other. The highest
    -- position `before` the second has no time, and comes before all.
    SELECT *, max(IF(kind = 'sent', NULL, rank)) OVER up_to_here AS highest
    FROM ranked
    WINDOW up_to_here AS (
        PARTITION BY cluster, topic, partition, second ORDER BY moment NULLS FIRST, kind
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
),
regressed AS (
    SELECT * FROM acked_before WHERE kind = 'sent' AND rank <= highest
)
SELECT
    r.who, r.number, r.topic, r.cluster, '' AS subscription,
    IF(r.rank = r.highest, 'same_position', 'lower_position') AS cause,
    concat(
        'acked at ', position_text(r.place), ' though the ack for ', position_text(earlier.place),
        ' was settled before it was sent'
    ) AS detail
FROM regressed r JOIN (SELECT DISTINCT rank, place FROM ranked) earlier ON earlier.rank = r.highest
