-- A message is first delivered to a subscription after a message that has a higher seq and a higher position in the log.
-- Both have the same producer, key and partition. `rows` holds the published messages that are stored, with their first
-- copies and first deliveries; all messages of a producer's key are in one part. Messages that are not found in the log
-- are left out, because they have no place in its order.
--
-- Deliveries to one incarnation of a consumer are ordered by arrival, even if the clock was set back. The order of
-- arrivals holds only within an incarnation. So deliveries to two incarnations or consumers are ordered only if their
-- times differ by more than the clocks' error.
--
-- A suspect was delivered after a message A with a higher seq, and after a message B with a higher position. If no
-- message with a higher seq is stored before the suspect, A also has a higher position, which is enough. Otherwise A and
-- B may be different messages, and a search has to find one message with both properties. Such suspects are themselves
-- stored out of order, so they are few. If the clock was set back within an incarnation, its times do not order its own
-- deliveries. Then all suspects of that key need the search too.
WITH placed AS (
    -- Ranks are numbers that have the same order as the positions.
    SELECT *, dense_rank() OVER (ORDER BY segment, "offset", batch_index) AS rank FROM rows
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
                x.arrival < s.arrival,
                x.moment + clock_error_us() < s.moment
            )
    )
)
SELECT
    who, number, topic, cluster, subscription,
    'after_higher_seq' AS cause,
    concat(
        'stored at ', position_text({segment: segment, "offset": "offset", batch_index: batch_index}),
        ' and first delivered to ', consumer, ' after a message stored behind it, up to seq ', highest_before
    ) AS detail
FROM found
