-- One row per anomaly, message and place, with the facts about the place and whether the anomaly is legal there.
-- `fact_findings` holds the findings from facts, and `rows` the findings of comparisons. Each may repeat a finding.
CREATE TABLE findings AS
WITH found AS (
    SELECT who, number, topic, cluster, subscription, anomaly, min({cause: cause, detail: detail}) AS first
    FROM (FROM fact_findings UNION ALL BY NAME FROM rows)
    GROUP BY who, number, topic, cluster, subscription, anomaly
),
deliveries_by_cluster AS (
    SELECT who, number, topic, cluster FROM places WHERE deliveries > 0
),
copies_by_cluster AS (
    SELECT who, number, topic, cluster FROM places WHERE subscription = '' AND copies > 0
),
ruled AS (
    -- The scenario's rule for the place itself, or else its rule for every other place.
    SELECT
        f.*,
        (f.who, f.number, f.topic, f.cluster) IN (FROM deliveries_by_cluster) AS delivered_here,
        (f.who, f.number, f.topic, p.home) IN (FROM copies_by_cluster) AS stored_at_home,
        p.who IS NULL AS without_facts,
        p.home,
        p.partition,
        p.key,
        p.sent_at,
        p.last_acked_at,
        p.outcome,
        p.copies,
        p.last_position_at,
        p.elsewhere_from,
        p.elsewhere_until,
        coalesce(here.forbidden, (SELECT e.forbidden FROM forbidden e WHERE e.cluster IS NULL)) AS forbidden
    FROM found f
    LEFT JOIN places p USING (who, number, topic, cluster, subscription)
    LEFT JOIN forbidden here ON (here.cluster, here.subscription) = (f.cluster, f.subscription)
)
SELECT
    * EXCLUDE (
        first, forbidden, delivered_here, stored_at_home, sent_at, last_acked_at, outcome, copies, last_position_at,
        elsewhere_from, elsewhere_until
    ),
    first.cause,
    first.detail,
    -- A message that was sent before a destroying fault took effect may be missing in the destroyed cluster. If that is
    -- its home, it may also be missing in clusters to which it had not been replicated yet. If such a cluster delivered
    -- the message, it had got it and is not excused. A message that was sent later is not excused, but a message with
    -- an unknown time of sending is. `rpo_messages` bounds the messages that no cluster holds.
    --
    -- Acks and deliveries before the healing come from the old log, because the healed cluster begins a new log. This
    -- new log has to keep the messages that it acked, and to replicate the messages that it holds. If a message had no
    -- ack yet, its client sends it again to the new log. Then each of the two logs may deliver it from one position.
    --
    -- Two consumers may receive in turns unless samples prove that the consumers stayed the same (turns.py).
    NOT list_contains(forbidden, anomaly) OR first.cause = 'consumers_may_have_changed' OR EXISTS (
        FROM loosened l
        WHERE l.anomaly = ruled.anomaly
            AND coalesce(l.outcome = ruled.outcome, l.outcome IS NULL)
            AND coalesce(l.home = ruled.home, l.home IS NULL)
            AND coalesce(l.subscription = ruled.subscription, l.subscription IS NULL)
    ) OR (
        EXISTS (
            FROM destroyed_clusters d
            WHERE coalesce(ruled.sent_at < d.effective_at, true) AND CASE
                WHEN anomaly IN ('lost', 'unreadable')
                    THEN d.name = ruled.cluster AND coalesce(ruled.last_acked_at <= d.healed_at, true)
                WHEN anomaly = 'not_replicated' THEN d.name = ruled.cluster OR (
                    d.name = ruled.home AND NOT delivered_here AND NOT stored_at_home
                    AND coalesce(ruled.last_acked_at <= d.healed_at, true)
                )
                WHEN anomaly = 'delivered_from_elsewhere'
                    THEN d.name = ruled.cluster AND coalesce(ruled.elsewhere_until <= d.healed_at, true)
                WHEN anomaly = 'delivered_from_two_positions' THEN d.name = ruled.cluster AND ruled.copies = 2
                    AND ruled.elsewhere_from <= d.healed_at AND ruled.last_position_at > d.healed_at
            END
        )
    ) AS legal
FROM ruled
