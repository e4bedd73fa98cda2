-- A message was received within another consumer's turn of a key.
SELECT who, number, topic, cluster, subscription, cause, detail FROM taken_turns WHERE anomaly = 'key_on_two_consumers'
