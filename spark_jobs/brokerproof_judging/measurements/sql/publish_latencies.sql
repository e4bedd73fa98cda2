-- The time from a message's schedule to its first ack, or to the load's end, by the time in which it was scheduled, and
-- by home and over all homes. `proven` is the value without the effect of the producer's standstills. A message that a
-- dead client only reserved is left out.
CREATE OR REPLACE VIEW measured AS
WITH timed AS (
    SELECT
        home,
        producer,
        outcome = 'acked' AS is_ended,
        epoch_us(scheduled_at) AS start,
        CASE WHEN outcome = 'acked' THEN epoch_us(settled_at) ELSE load_end() END AS until
    FROM messages
    WHERE subscription IS NULL AND cluster = home AND (sent_at IS NOT NULL OR outcome != 'unknown')
),
counted AS (
    SELECT
        s.name AS time,
        t.home,
        t.is_ended,
        t.until - t.start AS value,
        EXISTS (FROM causes c WHERE c.client = t.producer AND t.start <= c.until AND t.until > c.start) AS is_own,
        count(*) AS count
    FROM timed t JOIN spans s ON t.start >= s.start AND t.start < s.until
    GROUP BY ALL
)
SELECT
    {'time': c.time, 'place': p.place, 'proven': v.proven} AS subject,
    CASE WHEN c.is_own AND v.proven THEN 0 ELSE c.value END AS value,
    c.is_ended,
    c.count
FROM counted c, (VALUES (true), (false)) v(proven), LATERAL (SELECT unnest(['', c.home])) p(place)
