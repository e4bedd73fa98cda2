-- An acked message is not in the log of its home, which was read to its end.
SELECT
    who, number, topic, cluster, subscription,
    IF(len(acked_positions) > 0, 'acked_at_position', 'acked_without_position') AS cause,
    concat(acked_text(acked_at), ', and not in the log of ', cluster, ', which was read to its end') AS detail
FROM log_facts
WHERE missing AND cluster = home AND read_to_end AND faults_undone()
