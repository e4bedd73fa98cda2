-- Each message that a consumer received within the turn of another consumer, more than the clocks' error after its begin
-- and before its end. If this is so within a period in which samples prove the same consumers, the cause says so.
CREATE TABLE taken_turns AS
WITH received AS (
    SELECT
        d.who,
        d.number,
        d.topic,
        d.cluster,
        d.subscription,
        t.anomaly,
        min({
            unproven: t.since IS NULL, received_at: d.received_at, consumer: d.consumer, incarnation: d.incarnation,
            other: t.consumer, other_incarnation: t.incarnation
        }) AS first
    FROM deliveries d
    JOIN turns t
        ON (t.cluster, t.topic, t.subscription) = (d.cluster, d.topic, d.subscription)
        AND t.partition IS NOT DISTINCT FROM d.partition
        AND (t.key IS NULL OR t.key = d.key)
        AND (t.consumer IS DISTINCT FROM d.consumer OR t.incarnation IS DISTINCT FROM d.incarnation)
        AND t.first_at + clock_error_us() < d.received_at
        AND d.received_at + clock_error_us() < t.last_at
    LEFT JOIN published p ON (p.who, p.number, p.topic) = (d.who, d.number, d.topic)
    WHERE t.since IS NULL
        OR (
            p.scheduled_at - clock_error_us() >= t.since
            AND d.received_at - clock_error_us() >= t.since
            AND d.received_at + clock_error_us() <= t.until
        )
    GROUP BY ALL
)
SELECT
    * EXCLUDE (first),
    IF(first.unproven, 'consumers_may_have_changed', 'consumers_stayed') AS cause,
    concat(
        'received by ', first.consumer, ' in incarnation ', first.incarnation, ' between two messages that ',
        first.other, ' received in incarnation ', first.other_incarnation
    ) AS detail
FROM received;
