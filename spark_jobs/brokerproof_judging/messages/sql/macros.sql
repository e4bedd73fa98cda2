-- The expressions that several queries of this folder share.

-- A message without a readable name is told from others by a mark and its position (message_columns.py).
CREATE MACRO is_nameless(who) AS starts_with(who, chr(1));

-- The part of its name that such a message carries, null where it carries none.
CREATE MACRO producer_of(who) AS nullif(IF(is_nameless(who), split_part(who, chr(1), 3), who), '');
CREATE MACRO seq_of(who, number) AS IF(is_nameless(who) AND number < 0, NULL, number);

-- A position, and when a message was acked, as people read them.
CREATE MACRO position_text(place) AS concat_ws(':', place.ledger_id, place.entry_id, place.batch_index);
CREATE MACRO acked_text(acked_at) AS
    concat('acked', IF(acked_at IS NULL, '', concat(' at ', make_timestamp(acked_at), ' UTC')));
