-- A message was acked at or below a position whose ack was settled before the message was sent. `rows` holds three
-- kinds of rows: an attempt at the time it was `sent` (less the clocks' error), an ack at the time it was `settled`,
-- and the highest position of a log `before` a second. A part holds whole seconds of a log.
WITH ranked AS (
    -- Ranks are numbers that have the same order as the positions.
    SELECT
        *,
        {segment: segment, "offset": "offset", batch_index: batch_index} AS place,
        CASE
            WHEN segment IS NOT NULL THEN dense_rank() OVER (ORDER BY segment, "offset", batch_index)
        END AS rank
    FROM rows
),
before_second AS (
    SELECT cluster, topic, partition, second, max(rank) AS highest
    FROM ranked
    WHERE kind = 'before'
    GROUP BY cluster, topic, partition, second
),
within_second AS (
    -- The range ends one microsecond earlier, because events at the same time are not before each other.
    SELECT *, max(IF(kind = 'settled', rank, NULL)) OVER same_second AS highest
    FROM ranked
    WHERE kind != 'before'
    WINDOW same_second AS (
        PARTITION BY cluster, topic, partition, second ORDER BY moment RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),
regressed AS (
    SELECT
        w.who, w.number, w.topic, w.cluster, w.place, w.rank,
        greatest(w.highest, b.highest) AS highest
    FROM within_second w LEFT JOIN before_second b USING (cluster, topic, partition, second)
    WHERE w.kind = 'sent' AND w.rank <= greatest(w.highest, b.highest)
)
SELECT
    r.who, r.number, r.topic, r.cluster, '' AS subscription,
    IF(r.rank = r.highest, 'same_position', 'lower_position') AS cause,
    concat(
        'acked at ', position_text(r.place), ' though the ack for ', position_text(earlier.place),
        ' was settled before it was sent'
    ) AS detail
FROM regressed r JOIN (SELECT DISTINCT rank, place FROM ranked) earlier ON earlier.rank = r.highest
