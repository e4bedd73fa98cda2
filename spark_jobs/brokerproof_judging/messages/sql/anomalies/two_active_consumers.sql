-- A message was received within another consumer's turn of a partition.
SELECT who, number, topic, cluster, subscription, cause, detail FROM taken_turns WHERE anomaly = 'two_active_consumers'
