-- One row per anomaly, message and place, with the facts about the place and whether the anomaly is legal there.
-- `fact_findings` holds the findings from facts, `rows` those of comparisons; both may hold one anomaly more than once.
CREATE TABLE findings AS
WITH found AS (
    SELECT who, number, topic, cluster, subscription, anomaly, min({cause: cause, detail: detail}) AS first
    FROM (FROM fact_findings UNION ALL BY NAME FROM rows)
    GROUP BY who, number, topic, cluster, subscription, anomaly
),
ruled AS (
    -- The scenario's rule for the place itself, or else its rule for every other place.
    SELECT
        f.*,
        p.who IS NULL AS without_facts,
        p.home,
        p.partition,
        p.key,
        p.sent_at,
        p.outcome,
        coalesce(here.forbidden, elsewhere.forbidden) AS forbidden
    FROM found f
    LEFT JOIN places p USING (who, number, topic, cluster, subscription)
    LEFT JOIN forbidden here ON (here.cluster, here.subscription) = (f.cluster, f.subscription)
    JOIN forbidden elsewhere ON elsewhere.cluster IS NULL
)
SELECT
    * EXCLUDE (first, forbidden, sent_at, outcome),
    first.cause,
    first.detail,
    -- A destroyed cluster may lose, or not yet have sent on, a message that was sent before the destroying fault took
    -- effect, and no other. A message of an unknown time of sending may have been sent before. `rpo_messages` bounds the
    -- messages that no cluster holds. If such a message had no ack yet, its client sends it again to the new log.
    NOT list_contains(forbidden, anomaly) OR EXISTS (
        FROM loosened l
        WHERE l.anomaly = ruled.anomaly
            AND coalesce(l.outcome = ruled.outcome, l.outcome IS NULL)
            AND coalesce(l.home = ruled.home, l.home IS NULL)
            AND coalesce(l.subscription = ruled.subscription, l.subscription IS NULL)
    ) OR (
        anomaly IN ('lost', 'not_replicated', 'unreadable', 'delivered_from_elsewhere', 'delivered_from_two_positions')
        AND EXISTS (
            FROM destroyed_clusters d
            WHERE (d.name = ruled.cluster OR (d.name = ruled.home AND anomaly IN ('lost', 'not_replicated')))
                AND coalesce(ruled.sent_at < d.effective_at, true)
        )
    ) AS legal
FROM ruled
