-- A message is stored in its home, but not at any position that its acks named. The log was read to its end, or past
-- all of these positions.
SELECT
    who, number, topic, cluster, subscription,
    'stored_elsewhere' AS cause,
    concat(
        'stored at ', position_text(first_copy), ', which is none of the ', len(list_distinct(acked_positions)),
        ' position(s) that its acks named'
    ) AS detail
FROM log_facts
WHERE cluster = home AND (read_to_end OR read_past_acks) AND copies > 0 AND len(acked_positions) > 0
    AND NOT list_has_any(acked_positions, stored_positions)
