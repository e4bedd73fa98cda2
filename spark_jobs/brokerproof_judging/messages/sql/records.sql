-- The rows of a part's files, with the names of messages (message_columns.py) and comparable positions. Times are
-- microseconds since the epoch.
CREATE TABLE publishes AS
SELECT
    who_of(producer, seq, partition, segment, "offset", batch_index) AS who,
    number_of(seq) AS number,
    topic,
    cluster,
    partition,
    IF(segment >= 0, segment, NULL) AS segment,
    offset_of(segment, "offset") AS "offset",
    batch_index_of(segment, batch_index) AS batch_index,
    key,
    payload_hash,
    epoch,
    outcome,
    scheduled_at,
    sent_at,
    settled_at
FROM recorded_publishes;

CREATE TABLE stored AS
SELECT
    who_of(producer, seq, partition, segment, "offset", batch_index) AS who,
    number_of(seq) AS number,
    topic,
    cluster,
    partition,
    IF(segment >= 0, segment, NULL) AS segment,
    offset_of(segment, "offset") AS "offset",
    batch_index_of(segment, batch_index) AS batch_index,
    key,
    payload_hash
FROM recorded_stored;

CREATE TABLE deliveries AS
SELECT
    who_of(producer, seq, partition, segment, "offset", batch_index) AS who,
    number_of(seq) AS number,
    topic,
    cluster,
    partition,
    IF(segment >= 0, segment, NULL) AS segment,
    offset_of(segment, "offset") AS "offset",
    batch_index_of(segment, batch_index) AS batch_index,
    key,
    payload_hash,
    subscription,
    consumer,
    incarnation,
    arrival,
    received_at,
    acknowledged_at
FROM recorded_deliveries;

CREATE TABLE outputs AS
SELECT
    who_of(producer, seq, partition, segment, "offset", batch_index) AS who,
    number_of(seq) AS number,
    topic,
    cluster,
    partition,
    IF(segment >= 0, segment, NULL) AS segment,
    offset_of(segment, "offset") AS "offset",
    batch_index_of(segment, batch_index) AS batch_index,
    subscription,
    consumer,
    written_at
FROM recorded_outputs;
