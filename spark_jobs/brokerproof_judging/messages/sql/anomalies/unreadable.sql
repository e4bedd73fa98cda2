-- A message was acked in a part of its home's log that no reader can read. Every fault was undone, and every node that
-- should run was healthy.
SELECT
    who, number, topic, cluster, subscription,
    'part_cannot_be_read' AS cause,
    concat(acked_text(acked_at), ' in ', home, ', in a part of its log that cannot be read') AS detail
FROM log_facts
WHERE missing AND acked_unreadable AND faults_undone()
