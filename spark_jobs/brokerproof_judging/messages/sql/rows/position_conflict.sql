-- A row for each position and message that was acked there, is stored there, or was delivered from there. A delivery is
-- left out if the log stores the message at the same position, because it would add nothing.
SELECT cluster, topic, partition, segment, "offset", batch_index, who, number, '' AS subscription
FROM publishes
WHERE outcome = 'acked'
UNION ALL
SELECT cluster, topic, partition, segment, "offset", batch_index, who, number, '' AS subscription
FROM stored
UNION ALL
SELECT cluster, topic, partition, segment, "offset", batch_index, who, number, subscription
FROM delivered_elsewhere
