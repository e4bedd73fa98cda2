-- Two messages share a position: each is stored there, was acked there, or was delivered from there. `rows` holds every
-- such message and position of a part. If the message is stored or was acked there, the place of the conflict is the
-- log. Otherwise it is each subscription that got the message from there. Rows without a position join no others.
WITH shared AS (
    SELECT cluster, topic, partition, segment, "offset", batch_index
    FROM rows
    GROUP BY cluster, topic, partition, segment, "offset", batch_index
    HAVING min(who) != max(who) OR min(number) != max(number)
),
sharers AS (
    SELECT
        *,
        min({who: who, number: number}) OVER same_position AS lowest,
        max({who: who, number: number}) OVER same_position AS highest,
        min(subscription) OVER same_position_and_message = '' AS in_log
    FROM rows SEMI JOIN shared USING (cluster, topic, partition, segment, "offset", batch_index)
    WINDOW
        same_position AS (PARTITION BY cluster, topic, partition, segment, "offset", batch_index),
        same_position_and_message AS (
            PARTITION BY cluster, topic, partition, segment, "offset", batch_index, who, number
        )
),
pairs AS (
    SELECT *, IF(lowest = {who: who, number: number}, highest, lowest) AS other
    FROM sharers
    WHERE subscription = '' OR NOT in_log
)
SELECT
    who, number, topic, cluster, subscription,
    'shared_position' AS cause,
    concat(
        'shares the position ', position_text({segment: segment, "offset": "offset", batch_index: batch_index}),
        -- The mark in the name of a nameless message is not printable.
        ' with message ', replace(other.who, chr(1), ' '), '/', other.number
    ) AS detail
FROM pairs
