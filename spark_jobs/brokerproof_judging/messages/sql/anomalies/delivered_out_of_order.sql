-- A message is first delivered to a subscription after a message of the same producer, key and partition that has a
-- higher seq and is stored behind it. `rows` holds the published messages that are stored, with their first copies and
-- their first deliveries; all messages of a producer's key are in one part. A message that is not found in the log
-- proves nothing about order.
--
-- Deliveries to one incarnation of a consumer are ordered by their arrival, whatever the clock did. Deliveries to two
-- incarnations or consumers are ordered only where their times differ by more than the clocks' error, because order
-- across incarnations proves nothing by itself.
--
-- It is necessary that a message of a higher seq came before, and that a message stored behind came before. It is
-- sufficient too where no message of a higher seq is stored before: then a message of a higher seq is stored behind.
-- Elsewhere the two may be different messages, and only a search for one that is both can tell. Such a message is
-- itself stored out of order, so that there are few. If the clock was set back within an incarnation, its times say
-- nothing about its own order, so that a search is needed for its key, too.
WITH placed AS (
    -- A position's rank compares as the position does, and is a number.
    SELECT *, dense_rank() OVER (ORDER BY ledger_id, entry_id, batch_index) AS rank FROM rows
),
compared AS (
    SELECT
        *,
        max(number) OVER stored_up_to_here AS highest_stored_up_to_here,
        greatest(max(number) OVER to_same_consumer, max(number) OVER to_any_consumer) AS highest_before,
        greatest(max(rank) OVER to_same_consumer, max(rank) OVER to_any_consumer) AS rank_before,
        coalesce(moment < max(moment) OVER to_same_consumer, false) AS clock_is_back
    FROM placed
    WINDOW
        stored_up_to_here AS (
            PARTITION BY cluster, topic, subscription, partition, who, key
            ORDER BY rank RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ),
        to_same_consumer AS (
            PARTITION BY cluster, topic, subscription, partition, who, key, consumer, incarnation
            ORDER BY arrival, number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        to_any_consumer AS (
            PARTITION BY cluster, topic, subscription, partition, who, key
            ORDER BY moment RANGE BETWEEN UNBOUNDED PRECEDING AND 1 + clock_error_us() PRECEDING
        )
),
with_clocks AS (
    SELECT
        *,
        highest_stored_up_to_here > number
            OR bool_or(clock_is_back) OVER (PARTITION BY cluster, topic, subscription, partition, who, key)
            AS needs_search
    FROM compared
),
suspects AS (
    SELECT * FROM with_clocks WHERE highest_before > number AND rank_before > rank
),
found AS (
    SELECT * FROM suspects WHERE NOT needs_search
    UNION ALL
    SELECT s.*
    FROM suspects s
    WHERE s.needs_search AND EXISTS (
        SELECT 1
        FROM placed x
        WHERE x.cluster = s.cluster
            AND x.topic = s.topic
            AND x.subscription = s.subscription
            AND x.partition = s.partition
            AND x.who = s.who
            AND x.key IS NOT DISTINCT FROM s.key
            AND x.number > s.number
            AND x.rank > s.rank
            AND IF(
                x.consumer IS NOT DISTINCT FROM s.consumer AND x.incarnation IS NOT DISTINCT FROM s.incarnation,
                (x.arrival, x.number) < (s.arrival, s.number),
                x.moment + clock_error_us() < s.moment
            )
    )
)
SELECT
    who, number, topic, cluster, subscription,
    'after_higher_seq' AS cause,
    concat(
        'stored at ', position_text({ledger_id: ledger_id, entry_id: entry_id, batch_index: batch_index}),
        ' and first delivered to ', consumer, ' after a message stored behind it, up to seq ', highest_before
    ) AS detail
FROM found
