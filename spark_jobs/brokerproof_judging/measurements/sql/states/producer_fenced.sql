-- The producer processes that were told that another one has their name.
SELECT count(*) AS times, first(producer || ', process ' || epoch) AS example
FROM (SELECT DISTINCT cluster, producer, epoch FROM publishes WHERE error ILIKE '%fenced%')
