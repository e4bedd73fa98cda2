-- The time from an ack in the home to the first delivery in another cluster, by the time in which the message was
-- scheduled. `proven` is the value without the effect of standstills of the subscription's consumers.
CREATE OR REPLACE VIEW measured AS
WITH timed AS (
    SELECT
        home || '>' || cluster AS place,
        subscription,
        epoch_us(scheduled_at) AS scheduled,
        epoch_us(settled_at) AS start,
        epoch_us(first_received_at) AS until
    FROM messages
    WHERE subscription IS NOT NULL AND cluster != home AND outcome = 'acked'
),
counted AS (
    SELECT
        s.name AS time,
        t.place,
        -- A message may be delivered before its ack comes.
        CASE WHEN t.until IS NOT NULL THEN greatest(0, t.until - t.start) END AS value,
        EXISTS (FROM causes c WHERE c.client = t.subscription AND t.start <= c.until AND t.until > c.start) AS is_own,
        count(*) AS count
    FROM timed t JOIN spans s ON t.scheduled >= s.start AND t.scheduled < s.until
    GROUP BY ALL
)
SELECT
    {'time': c.time, 'place': c.place, 'proven': v.proven} AS subject,
    CASE WHEN c.is_own AND v.proven THEN 0 ELSE c.value END AS value,
    c.value IS NOT NULL AS is_ended,
    c.count
FROM counted c, (VALUES (true), (false)) v(proven)
