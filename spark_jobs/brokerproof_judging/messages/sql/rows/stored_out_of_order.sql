-- Each published message that a cluster stores, with the position of its first copy there.
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
    stored_batch_index AS batch_index
FROM places
WHERE subscription = '' AND stored_segment IS NOT NULL
