-- A message is stored at two or more positions of a topic in one cluster.
SELECT
    who, number, topic, cluster, subscription,
    IF(attempts > 1, 'attempted_again', 'attempted_once') AS cause,
    concat(
        'stored at ', copies, ' positions, first at ', position_text(first_copy), ', from ', attempts, ' attempt(s)'
    ) AS detail
FROM log_facts
WHERE copies > 1
