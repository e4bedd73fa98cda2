-- The first copy of a message is stored after the first copy of a message with a higher seq. Both messages have the same
-- producer, key and partition. `rows` holds the published messages that are stored, with their first copies. All
-- messages of a producer's key are in one part.
WITH ordered AS (
    SELECT *, max(number) OVER stored_before AS highest_before
    FROM rows
    WINDOW stored_before AS (
        -- The number breaks ties, so two messages at one position are in order.
        PARTITION BY cluster, topic, partition, who, key ORDER BY segment, "offset", batch_index, number
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)
SELECT
    who, number, topic, cluster, subscription,
    'behind_higher_seq' AS cause,
    concat(
        'first stored at ', position_text({segment: segment, "offset": "offset", batch_index: batch_index}),
        ', behind seq ', highest_before, ' of its producer and key'
    ) AS detail
FROM ordered
WHERE highest_before > number
