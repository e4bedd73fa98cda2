-- The events of clients, and how faults touched them. A place is a producer or a subscription in one partition of a
-- cluster, or a hot key at a subscription. Times are µs. `free_times` has the times in which no standstill of a client
-- had an effect, and `busy_times` those in which it had something to send or to receive.

CREATE MACRO name_partition(number) AS
    CASE WHEN number IS NULL THEN 'unknown partition' WHEN number >= 0 THEN 'partition ' || number END;

-- Only an ack names a partition, so an attempt without an ack gets the partition of acks of the same key. If the topic
-- gets more partitions, a key may move to another one: then it is the partition that the key had last before, or first.
-- A key belongs to one producer, and a producer to one cluster. A message that a dead client only reserved is in no
-- measured time, because nothing says that it was sent.
CREATE VIEW attempts AS
WITH first_acks AS (
    SELECT key, partition AS of_key, min(seq) AS first
    FROM publishes
    WHERE is_partitioned() AND partition IS NOT NULL
    GROUP BY key, partition
),
of_keys AS (
    SELECT
        key,
        of_key,
        IF(lag(first) OVER by_seq IS NULL, 0, first) AS since,
        lead(first) OVER by_seq AS until
    FROM first_acks
    WINDOW by_seq AS (PARTITION BY key ORDER BY first, of_key)
)
SELECT
    p.cluster,
    p.partition,
    p.producer,
    p.seq,
    p.outcome,
    epoch_us(p.scheduled_at) AS scheduled,
    epoch_us(p.sent_at) AS sent,
    CASE WHEN p.outcome = 'acked' THEN epoch_us(p.settled_at) END AS acked,
    is_partitioned() AND coalesce(p.partition, k.of_key) IS NULL AS in_unknown,
    concat_ws(
        '/', p.cluster, CASE WHEN is_partitioned() THEN name_partition(coalesce(p.partition, k.of_key)) END, p.producer
    ) AS place
FROM publishes p LEFT JOIN of_keys k ON k.key = p.key AND p.seq >= k.since AND (p.seq < k.until OR k.until IS NULL)
WHERE p.sent_at IS NOT NULL OR p.outcome != 'unknown';

-- If the topic gets more partitions, a place may have messages only for a part of the load: the time at which its first
-- message is due, and the time after which it gets no further event. The latter is the load's end unless every message
-- was acked.
CREATE VIEW due_times AS
WITH of_messages AS (
    SELECT cluster, partition, place, min(scheduled) AS due, min(acked) AS acked
    FROM attempts
    WHERE is_growing()
    GROUP BY cluster, partition, place, producer, seq
)
SELECT 'acks' AS kind, place, min(due) AS first, IF(bool_and(acked IS NOT NULL), max(due), load_end()) AS last
FROM of_messages
GROUP BY place
UNION ALL
SELECT
    'deliveries',
    concat_ws('/', e.label, e.subscription, name_partition(m.partition)) AS place,
    min(m.due),
    max(m.acked)
FROM of_messages m JOIN expecting e ON e.home = m.cluster
WHERE m.acked IS NOT NULL
GROUP BY ALL;

-- By place and fault: the attempts that were sent after the fault's effect or never sent (`waited`), and the first ack
-- of a message that was sent after the effect. A message that was sent between injection and effect may be acked as if
-- there were no fault. A place that began later is in no time of a fault unless this fault adds partitions (`grows`).
CREATE TABLE place_acks AS
SELECT
    f.number AS fault,
    a.producer,
    a.place,
    a.in_unknown,
    count(*) FILTER (a.outcome = 'acked') AS acks,
    count(*) FILTER (a.outcome = 'not_sent' OR a.sent >= f.effect) AS waited,
    min(a.acked) FILTER (a.sent >= f.effect) AS first
FROM attempts a CROSS JOIN faults f LEFT JOIN due_times d ON d.kind = 'acks' AND d.place = a.place
WHERE f.grows OR coalesce(d.first <= f.effect, true)
GROUP BY ALL;

-- Messages of unknown partition have a place of their own, which has to get acks only if the producer got none at all.
CREATE VIEW waiting_places AS
SELECT *
FROM (SELECT *, sum(acks) OVER (PARTITION BY producer) AS acks_of_producer FROM place_acks)
WHERE NOT in_unknown OR acks_of_producer = 0;

-- A message is late from `start` to `until`, its first ack or the load's end. Messages due before the steady phase are
-- left out, and so are those that cannot be late before the load ends: their acks may come after it.
CREATE TABLE late AS
SELECT
    producer,
    any_value(place) AS place,
    min(scheduled) + late_after() AS start,
    least(min(acked), load_end()) AS until,
    until < load_end() AS answered
FROM attempts
GROUP BY producer, seq
HAVING start < load_end() AND start >= load_start() + late_after();

-- Late times of one place that overlap or touch each other are one interruption.
CREATE VIEW interruptions AS
WITH reached AS (
    SELECT *, max(until) OVER (
        PARTITION BY place ORDER BY start ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS reached
    FROM late
    WHERE until > start
),
numbered AS (
    SELECT *, count(*) FILTER (start > reached) OVER (PARTITION BY place ORDER BY start) AS number FROM reached
)
SELECT producer, place, min(start) AS start, max(until) AS until FROM numbered GROUP BY producer, place, number;

-- Each time twice: whole, and the parts in which the client's standstills had no effect (`proven`).
CREATE VIEW interruptions_of_faults AS
WITH parts AS (
    SELECT *, false AS proven FROM interruptions
    UNION ALL
    SELECT i.producer, i.place, greatest(i.start, s.start), least(i.until, s.until), true
    FROM interruptions i LEFT JOIN free_times s ON s.kind = 'interruptions' AND s.client = i.producer
),
touching AS (
    SELECT f.number AS fault, p.*
    FROM parts p JOIN faults f ON p.start < f.until AND p.until > f.begin
    WHERE p.start < p.until
),
-- The part of an interruption that no earlier one covers, in any place. The sum of these parts counts no time twice.
added AS (
    SELECT *, greatest(0, until - greatest(start, max(until) OVER (
        PARTITION BY fault, proven ORDER BY start ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ))) AS added
    FROM touching
),
-- Whether the last message that was due at the place had no ack when the load ended.
away AS (SELECT place, NOT arg_max(answered, start) AS away FROM late GROUP BY ALL)
SELECT
    fault,
    proven,
    place,
    sum(added)::BIGINT AS added,
    sum(until - start)::BIGINT AS length,
    max(until) AS last,
    any_value(away) AS away
FROM added JOIN away USING (place)
GROUP BY fault, proven, place;

-- A row with null for `moment` names a place that has to get events, even if it gets none.
CREATE VIEW events AS
SELECT 'acks' AS kind, producer AS client, place, acked AS moment
FROM attempts
WHERE outcome = 'acked'
UNION ALL
SELECT 'acks', producer, place, NULL::BIGINT
FROM waiting_places
UNION ALL
-- Repeated deliveries end no gap: new messages may still be delayed. A message without a readable producer or seq is
-- identified by its position.
SELECT 'deliveries', subscription, place, min(moment)
FROM (
    SELECT
        *,
        epoch_us(received_at) AS moment,
        concat_ws('/', coalesce(m.label, d.cluster), d.subscription, name_partition(d.partition)) AS place,
        CASE WHEN producer IS NULL OR seq IS NULL
            THEN {'cluster': d.cluster, 'segment': segment, 'offset': "offset", 'batch_index': batch_index}
        END AS position
    FROM deliveries d LEFT JOIN moves m USING (subscription)
)
GROUP BY subscription, place, producer, seq, position
UNION ALL
SELECT DISTINCT
    'deliveries',
    e.subscription,
    concat_ws('/', e.label, e.subscription, name_partition(a.partition)),
    NULL::BIGINT
FROM attempts a JOIN expecting e ON e.home = a.cluster
WHERE a.outcome = 'acked'
UNION ALL
-- The messages of a hot key, in any partition.
SELECT 'hot key', d.subscription, concat_ws('/', coalesce(m.label, d.cluster), d.subscription, d.key), min(epoch_us(d.received_at))
FROM deliveries d JOIN (SELECT DISTINCT key FROM hot_keys) USING (key) LEFT JOIN moves m USING (subscription)
WHERE d.producer IS NOT NULL AND d.seq IS NOT NULL
GROUP BY d.subscription, m.label, d.cluster, d.key, d.producer, d.seq
UNION ALL
SELECT 'hot key', e.subscription, concat_ws('/', e.label, e.subscription, k.key), NULL::BIGINT
FROM hot_keys k JOIN expecting e USING (home);

-- The longest time between two successive events of a place, by fault that it touches. The first such time of a place
-- begins with the load, and the last one ends with it, if the place has messages all the time.
CREATE VIEW gaps AS
WITH ordered AS (
    SELECT
        e.*,
        greatest(load_start(), d.first) AS begins,
        coalesce(lag(e.moment) OVER in_order, begins) AS before,
        lead(e.kind) OVER in_order IS NULL AS is_last,
        coalesce(e.moment >= d.last, false) AS is_done
    FROM events e LEFT JOIN due_times d USING (kind, place)
    WINDOW in_order AS (PARTITION BY e.kind, e.place ORDER BY e.moment NULLS FIRST)
),
gaps AS (
    SELECT kind, client, place, before AS start, moment AS until FROM ordered
    UNION ALL
    SELECT kind, client, place, coalesce(moment, begins), load_end() FROM ordered WHERE is_last AND NOT is_done
),
-- A time in which a client had nothing to send or to receive is no part of a gap.
busy AS (
    SELECT kind, client, place, greatest(g.start, b.start) AS start, least(g.until, b.until) AS until
    FROM gaps g LEFT JOIN busy_times b USING (kind, client)
    WHERE g.start IS NOT NULL AND g.until IS NOT NULL
),
touching AS (
    SELECT f.number AS fault, g.* FROM busy g JOIN faults f ON g.start < f.until AND g.until > f.begin
),
parts AS (
    SELECT fault, kind, place, start, until, false AS proven FROM touching
    UNION ALL
    SELECT t.fault, t.kind, t.place, greatest(t.start, s.start), least(t.until, s.until), true
    FROM touching t LEFT JOIN free_times s USING (kind, client)
)
SELECT fault, kind, proven, place, max({'length': until - start, 'start': start, 'until': until}) AS gap
FROM parts
GROUP BY fault, kind, proven, place;
