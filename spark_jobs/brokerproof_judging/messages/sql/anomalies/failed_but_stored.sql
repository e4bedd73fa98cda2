-- A message is stored although every attempt to publish it failed for certain, or it was not sent.
SELECT
    who, number, topic, cluster, subscription,
    IF(outcome = 'failed', 'failed_for_certain', 'not_sent') AS cause,
    concat(not_written_text(outcome, attempts), ', and it is stored at ', position_text(first_copy)) AS detail
FROM log_facts
WHERE outcome IN ('failed', 'not_sent') AND copies > 0
