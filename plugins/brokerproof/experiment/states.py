"""The states of a run that are worth reaching, because many bugs need one of them.

`reached/STATE` measures how often a run was in a state. A scenario that bounds it by `min: 1` is `unknown` if its run
never was: such a run shows nothing of what the scenario is about.
"""

from __future__ import annotations

from collections.abc import Mapping

# By name, what a run was in as often as `reached` says.
STATES: Mapping[str, str] = {
    "copies_changed_in_flight": "the holders of a segment changed while messages were written to it",
    "handed_over_unacknowledged": "a message that one consumer had got went to another one of the subscription",
    "producer_fenced": "a producer was told that another one has its name",
    "two_owners": "two nodes took in messages of a partition at a time",
    "wiped_copies_written": "a message was acked in a segment after all its nodes had been wiped and were back",
}
