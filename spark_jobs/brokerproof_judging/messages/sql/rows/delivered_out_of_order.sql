-- Each published message that is stored and that a subscription got, with its first copy and first delivery. If a
-- subscription moved, its rows for the new cluster leave out the messages that it got before the move.
SELECT
    who,
    number,
    topic,
    cluster,
    subscription,
    key,
    stored_partition AS partition,
    stored_segment AS segment,
    stored_offset AS "offset",
    stored_batch_index AS batch_index,
    consumer,
    incarnation,
    arrival,
    first_received_at AS moment
FROM places
WHERE stored_segment IS NOT NULL AND deliveries > 0
