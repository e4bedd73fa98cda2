-- A message shares a position, stored or named by an ack, with another message. `rows` holds what is stored or named at
-- the positions of a part.
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
        max({who: who, number: number}) OVER same_position AS highest
    FROM rows SEMI JOIN shared USING (cluster, topic, partition, ledger_id, entry_id, batch_index)
    WINDOW same_position AS (PARTITION BY cluster, topic, partition, ledger_id, entry_id, batch_index)
),
pairs AS (
    SELECT *, IF(lowest = {who: who, number: number}, highest, lowest) AS other FROM sharers
)
SELECT
    who, number, topic, cluster, '' AS subscription,
    'shared_position' AS cause,
    concat(
        'shares the position ', position_text({ledger_id: ledger_id, entry_id: entry_id, batch_index: batch_index}),
        -- The mark of a message without a name is not for people.
        ' with message ', replace(other.who, chr(1), ' '), '/', other.number
    ) AS detail
FROM pairs
