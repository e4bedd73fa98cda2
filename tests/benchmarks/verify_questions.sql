-- The questions that judging answers about the runs of verify_scale.py, in plain SQL on the whole tables: how many
-- messages have each planted anomaly, in a log or at a subscription. verify_scale.py compares judging with this query,
-- so it is never changed for speed. It knows of these runs that there is one cluster, one log, one subscription and one
-- consumer, that a position fits into 64 bits, and that no message has more than two copies or two deliveries.
WITH
attempts AS (
    SELECT
        producer, seq AS number, seq, key, payload_hash, outcome, sent_at, settled_at,
        (segment << 40) + ("offset" << 12) + batch_index AS position
    FROM publishes
),
-- A message without identity is one of its own at each position.
placed AS (
    SELECT
        coalesce(producer, '') AS producer,
        coalesce(seq, -1 - ((segment << 40) + ("offset" << 12) + batch_index)) AS number,
        payload_hash,
        (segment << 40) + ("offset" << 12) + batch_index AS position
    FROM stored
),
received AS (
    SELECT
        coalesce(producer, '') AS producer,
        coalesce(seq, -1 - ((segment << 40) + ("offset" << 12) + batch_index)) AS number,
        payload_hash,
        (segment << 40) + ("offset" << 12) + batch_index AS position,
        arrival,
        received_at,
        acknowledged_at
    FROM deliveries
),
copies AS (
    SELECT
        producer, number,
        min(position) AS first_position,
        max(position) AS last_position,
        min(payload_hash) AS lowest_hash,
        max(payload_hash) AS highest_hash
    FROM placed
    GROUP BY producer, number
),
by_position AS (
    SELECT
        producer, number, position,
        count(*) AS times,
        min(arrival) AS first_arrival,
        min(acknowledged_at) < max(received_at) AS confirmed,
        min(payload_hash) AS lowest_hash,
        max(payload_hash) AS highest_hash
    FROM received
    GROUP BY producer, number, position
),
got AS (
    SELECT
        producer, number,
        count(*) AS positions,
        bool_or(times > 1 AND coalesce(confirmed, false)) AS again_confirmed,
        bool_or(times > 1 AND NOT coalesce(confirmed, false)) AS again_unconfirmed,
        min(first_arrival) AS first_arrival,
        min(lowest_hash) AS lowest_hash,
        max(highest_hash) AS highest_hash
    FROM by_position
    GROUP BY producer, number
),
messages AS (
    SELECT
        producer, number, a.seq, a.key, a.outcome, a.payload_hash,
        a.position AS acked_position,
        c.first_position,
        c.last_position,
        c.lowest_hash AS lowest_stored_hash,
        c.highest_hash AS highest_stored_hash,
        coalesce(g.positions, 0) AS delivered_positions,
        g.again_confirmed,
        g.again_unconfirmed,
        g.first_arrival,
        g.lowest_hash AS lowest_delivered_hash,
        g.highest_hash AS highest_delivered_hash
    FROM attempts a
    FULL JOIN copies c USING (producer, number)
    FULL JOIN got g USING (producer, number)
),
in_order AS (
    SELECT
        seq,
        first_position,
        delivered_positions,
        max(seq) OVER (
            PARTITION BY producer, key ORDER BY first_position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS highest_stored_before,
        max(seq) OVER delivered_before AS highest_delivered_before,
        max(first_position) OVER delivered_before AS position_delivered_before
    FROM messages
    WHERE outcome IS NOT NULL AND first_position IS NOT NULL
    WINDOW delivered_before AS (
        PARTITION BY producer, key ORDER BY first_arrival ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),
acks AS (SELECT * FROM attempts WHERE outcome = 'acked' AND position IS NOT NULL),
highest_acks AS (
    SELECT settled_at, max(position) OVER (ORDER BY settled_at) AS highest
    FROM (SELECT settled_at, max(position) AS position FROM acks GROUP BY settled_at)
),
named_positions AS (
    SELECT producer, number, position FROM acks
    UNION ALL
    SELECT producer, number, position FROM placed
),
shared_positions AS (
    SELECT count(DISTINCT {producer: producer, number: number}) AS sharers FROM named_positions
    SEMI JOIN (
        SELECT position FROM named_positions GROUP BY position
        HAVING min(number) != max(number) OR min(producer) != max(producer)
    ) USING (position)
),
counts AS (
    SELECT
        count(*) FILTER (outcome = 'acked' AND first_position IS NULL) AS lost,
        count(*) FILTER (first_position IS NOT NULL AND delivered_positions = 0) AS undelivered,
        count(*) FILTER (outcome IS NULL AND first_position IS NOT NULL) AS phantom_stored,
        count(*) FILTER (outcome IS NULL AND delivered_positions > 0) AS phantom_delivered,
        count(*) FILTER (outcome = 'failed' AND first_position IS NOT NULL) AS failed_but_stored,
        count(*) FILTER (outcome = 'failed' AND delivered_positions > 0) AS failed_but_delivered,
        count(*) FILTER (lowest_stored_hash != payload_hash OR highest_stored_hash != payload_hash)
            AS corrupted_stored,
        count(*) FILTER (lowest_delivered_hash != payload_hash OR highest_delivered_hash != payload_hash)
            AS corrupted_delivered,
        count(*) FILTER (first_position != last_position) AS stored_twice,
        count(*) FILTER (outcome IS NOT NULL AND delivered_positions > 1) AS delivered_from_two_positions,
        count(*) FILTER (again_unconfirmed) AS delivered_twice,
        count(*) FILTER (again_confirmed) AS redelivered_after_ack,
        count(*) FILTER (acked_position NOT IN (first_position, last_position)) AS position_mismatch
    FROM messages
),
orders AS (
    SELECT
        count(*) FILTER (highest_stored_before > seq) AS stored_out_of_order,
        count(*) FILTER (
            delivered_positions > 0 AND highest_delivered_before > seq AND position_delivered_before > first_position
        ) AS delivered_out_of_order
    FROM in_order
),
regressed AS (
    SELECT count(*) AS position_regressed
    FROM acks a ASOF JOIN highest_acks h ON a.sent_at > h.settled_at
    WHERE a.position <= h.highest
)
FROM (UNPIVOT (FROM counts, orders, regressed, (SELECT sharers AS position_conflict FROM shared_positions))
    ON COLUMNS(*) INTO NAME anomaly VALUE messages)
