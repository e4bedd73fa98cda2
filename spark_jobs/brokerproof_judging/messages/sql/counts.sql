-- The judgement's counts. A message is counted once, at its home; copies and deliveries are counted at every place.
WITH counted AS (
    SELECT *, subscription = '' AS in_log, subscription = '' AND cluster = home AS at_home FROM places
)
SELECT
    coalesce(sum(attempts) FILTER (at_home), 0)::BIGINT AS publishes,
    count(*) FILTER (at_home AND outcome != 'not_sent') AS messages,
    count(*) FILTER (at_home AND outcome = 'acked') AS acked,
    count(*) FILTER (at_home AND outcome = 'failed') AS failed,
    count(*) FILTER (at_home AND outcome = 'unknown') AS unknown,
    count(*) FILTER (at_home AND outcome = 'not_sent') AS not_sent,
    count(*) FILTER (at_home AND recovered) AS recovered,
    coalesce(sum(copies) FILTER (in_log), 0)::BIGINT AS stored,
    coalesce(sum(deliveries), 0)::BIGINT AS deliveries
FROM counted
