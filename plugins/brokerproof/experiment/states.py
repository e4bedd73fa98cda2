"""The states of a run that are worth reaching, because many bugs need one of them.

`reached/STATE` measures how often a run was in a state. A scenario that bounds it by `min: 1` is `unknown` if its run
never was, because the run then shows too little. A search counts its runs by state.
"""

from __future__ import annotations

from collections.abc import Mapping

# By name, what a run was in as often as `reached` says.
STATES: Mapping[str, str] = {
    "copies_changed_in_flight": "the holders of a segment changed while messages were written to it",
    "segment_changed_in_flight": "the log went on in another segment while messages were on their way",
    "deposed_owner_returned": "a node that had owned the topic went on after another one had become its owner",
    "two_owners": "two nodes took in messages of a partition at a time, so one of them did not know of the other",
    "wiped_copies_written": "a message was acked in a segment after all its nodes had been wiped and were back",
    "wiped_copies_recovered": "a segment ended after a node that held its end had been wiped and was back",
    "unanswered_delivered": "a message whose producer never got an answer was delivered",
    "sent_again": "a producer that was started again sent a message again",
    "producer_fenced": "a producer was told that another one has its name",
    "handed_over_unacknowledged": "a message that one consumer had got went to another one of the subscription",
}
