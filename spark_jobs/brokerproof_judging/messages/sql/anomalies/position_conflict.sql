-- A message shares a position with another message: one where it is stored, that an ack named, or that it was delivered
-- from. `rows` holds what is stored, named or delivered at the positions of a part. The conflict is told of the log if
-- the message is stored there or was acked there, else of the subscriptions that it was delivered to. Rows without a
-- position join no others.
WITH shared AS (
    SELECT cluster, topic, partition, ledger_id, entry_id, batch_index
    FROM rows
    GROUP BY cluster, topic, partition, ledger_id, entry_id, batch_index
    HAVING min(who) != max(who) OR min(number) != max(number)
),
sharers AS (
    SELECT
        *,
        min({who: who, number: number}) OVER same_position AS lowest,
        max({who: who, number: number}) OVER same_position AS highest,
        min(subscription) OVER same_position_and_message = '' AS in_log
    FROM rows SEMI JOIN shared USING (cluster, topic, partition, ledger_id, entry_id, batch_index)
    WINDOW
        same_position AS (PARTITION BY cluster, topic, partition, ledger_id, entry_id, batch_index),
        same_position_and_message AS (
            PARTITION BY cluster, topic, partition, ledger_id, entry_id, batch_index, who, number
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
        'shares the position ', position_text({ledger_id: ledger_id, entry_id: entry_id, batch_index: batch_index}),
        -- The mark of a message without a name is not for people.
        ' with message ', replace(other.who, chr(1), ' '), '/', other.number
    ) AS detail
FROM pairs
