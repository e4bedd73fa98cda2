"""The emulated network between regions: one process per run, the link process, carries all their connections.

`systems`, `runtimes`, `faults`, `lifecycle` and `monitor` may import the package, but not its modules. The package must
not know a messaging system, a role of a node or a kind of fault.

A *viewer* is a node or client that connects to a *target*, a node of another region. The viewer's hosts file maps the
target's name to an address of the link process, which passes everything on. Properties, and differences from a wire:

- Delay, jitter: a chunk of bytes is written when it is due, never earlier. Chunks keep their order, so the delay of a
  dense stream tends to delay + jitter.
- Bandwidth: all connections from one region to another take turns at one rate limiter. There are no bursts and no
  packet losses.
- Connection set-up: `connect` returns at once. As on a wire, the viewer's first bytes arrive after 1.5 round trips,
  and the target's first bytes after 2. The set-up has no jitter.
- A dead target: on a wire, `connect` would fail after one round trip. Here it succeeds, and the connection is reset
  after this time, or `Route.redial_s` seconds later if the target still refuses.
- Bytes during a cut: the link process does not read them, so a sender stalls once its own buffer and about 400 KiB in
  the link process are full. Bytes that were under way go on at once after healing. TCP would wait for its next
  retransmission, which may take the duration of the cut once more.
- FIN and RST travel after the bytes, and are delayed and held like bytes. So the death of a peer becomes known across
  a cut only after healing.
- New connections during a cut: their SYNs are dropped, so `connect` hangs. As on a wire, it succeeds with the first
  SYN that is repeated after healing. A connection whose SYN was under way at the cut goes on after healing.
- A cut in one direction: the other direction goes on. On a wire, it would stall after one window for lack of ACKs.
- Acknowledgements: the link process acknowledges the sender's bytes. So retransmission and keepalive never time out,
  even during a long cut.
"""

from brokerproof.network.control_address import AddressOfControl
from brokerproof.network.emulated_network import Effect, State
from brokerproof.network.link_process import (
    LinkClient,
    has_link_process,
    list_link_process_files,
    record_link_process,
    sample_links,
    start_link_process,
)
from brokerproof.network.plan import Condition, Plan, Route, Shape, accepts_connection, make_shapes, matches

__all__ = [
    "AddressOfControl",
    "Condition",
    "Effect",
    "LinkClient",
    "Plan",
    "Route",
    "Shape",
    "State",
    "accepts_connection",
    "has_link_process",
    "list_link_process_files",
    "make_shapes",
    "matches",
    "record_link_process",
    "sample_links",
    "start_link_process",
]
