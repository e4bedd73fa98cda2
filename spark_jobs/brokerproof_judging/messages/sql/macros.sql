-- Expressions that several queries of this folder share.

-- The name of a message without a readable name is a mark and its position (message_columns.py).
CREATE MACRO is_nameless(who) AS starts_with(who, chr(1));

-- The producer and the seq that a message carries. Each is null if the message carries none.
CREATE MACRO producer_of(who) AS nullif(IF(is_nameless(who), split_part(who, chr(1), 3), who), '');
CREATE MACRO seq_of(who, number) AS IF(is_nameless(who) AND number < 0, NULL, number);

-- The name of a message (message_columns.py), and the parts of its position: null if the segment is negative, which is no
-- position, and a batch index of -1 outside a batch.
CREATE MACRO offset_of(segment, "offset") AS IF(segment >= 0, "offset", NULL);
CREATE MACRO batch_index_of(segment, batch_index) AS IF(segment >= 0, coalesce(batch_index, -1), NULL);
CREATE MACRO who_of(producer, seq, partition, segment, "offset", batch_index) AS IF(
    producer IS NULL OR seq IS NULL,
    concat(
        chr(1), partition, ':', IF(segment >= 0, segment, NULL), ':', offset_of(segment, "offset"), ':',
        batch_index_of(segment, batch_index), chr(1), producer
    ),
    producer
);
CREATE MACRO number_of(seq) AS coalesce(seq, -1);

-- Whether a position is before the position (end_segment, end_offset). Null if one of the two is not known.
CREATE MACRO is_before(place, end_segment, end_offset) AS
    place.segment < end_segment OR (place.segment = end_segment AND place."offset" < end_offset);

-- Whether a subscription drained up to the message at `place`, and how far it did, as a text. The first three values are of
-- the drain's proof, and null without one. A drain proves only messages before the end of the log at its time.
CREATE MACRO has_drained(drained, end_segment, end_offset, place) AS
    coalesce(drained, false) AND coalesce(is_before(place, end_segment, end_offset), true);
CREATE MACRO drain_text(drained, end_segment, end_offset, why) AS CASE
    WHEN drained IS NULL THEN 'no step left a record of it'
    WHEN drained THEN concat('it drained up to ', end_segment, ':', end_offset, ' only')
    ELSE why
END;

-- Texts for people: a position, the time of an ack, and the reason why a message must exist.
CREATE MACRO position_text(place) AS concat_ws(':', place.segment, place."offset", place.batch_index);
CREATE MACRO acked_text(acked_at) AS
    concat('acked', IF(acked_at IS NULL, '', concat(' at ', make_timestamp(acked_at), ' UTC')));
CREATE MACRO proof_of_existence_text(outcome, acked_at, home, getting_subscription, storing_clusters) AS
    concat_ws(
        ', ',
        IF(outcome = 'acked', concat(acked_text(acked_at), ' in ', home), NULL),
        'delivered to ' || getting_subscription,
        IF(len(storing_clusters) > 0, concat('stored in ', array_to_string(storing_clusters, ' and ')), NULL)
    );
CREATE MACRO not_written_text(outcome, attempts) AS
    IF(outcome = 'failed', concat('its ', attempts, ' attempt(s) failed for certain'), 'it was never sent');

-- Whether the found key differs from every published one. `found` is {key}, or null if no message was found.
CREATE MACRO is_other_key(found, published, other_published) AS
    found IS NOT NULL AND found.key IS DISTINCT FROM published AND found.key IS DISTINCT FROM other_published;
