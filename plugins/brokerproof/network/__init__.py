"""The emulated network between regions: one process per run, which every connection between two regions passes through.

`systems`, `runtimes`, `faults`, `lifecycle` and `monitor` may import the package, but not its modules. It must not know
a messaging system, a role of a node or a kind of fault.

A node sees a node of another region at an address made for it (its hosts file maps the name to that address). The link
process listens there and passes everything on. This is how it emulates a wire, and how it differs from one:

- Delay, jitter: a chunk is written when it is due, never earlier. Order holds, so that the delay of a dense stream
  tends to delay + jitter.
- Bandwidth: each ordered pair of regions has a rate limiter, at which its connections take turns. No bursts, no
  packet loss.
- Connection set-up: `connect` returns at once; the first bytes of both sides wait until they would arrive on a wire
  (1.5 round trips after the SYN for the viewer's, 2 for a greeting of the target's). The set-up has no jitter.
- A dead target: `connect` succeeds and is reset one round trip later. On a wire it is refused then.
- During a cut, bytes are not read, so that the sender's window closes (after its send buffer and about 400 KiB here),
  and bytes under way are held. On healing all depart again at once. TCP would wait for its next retransmission, which
  may take the duration of the cut once more.
- FIN and RST travel behind the bytes as FIN and RST. They are delayed and held like bytes, so that a death becomes
  known across a cut only after healing.
- New connections during a cut: their SYNs are dropped, so that `connect` hangs; it succeeds with the first SYN
  that is repeated after healing, as on a wire. A connection whose SYN was under way at the cut goes on after it.
- A cut in one direction: the other direction goes on. On a wire it would stall after a window, because no ACK comes
  back.
- The sender's kernel gets its ACKs from the link process, so that retransmission and keepalive never time out, even
  during a long cut.
"""

from brokerproof.network.control_address import AddressOfControl
from brokerproof.network.emulated_network import Effect, State
from brokerproof.network.link_process import (
    ADDRESS_TAKEN,
    LinkClient,
    has_link_process,
    list_link_process_files,
    record_link_process,
    start_link_process,
)
from brokerproof.network.link_samples import sample_links
from brokerproof.network.plan import Plan
from brokerproof.network.protocols import Network
from brokerproof.network.routes import Route, accepts_connection
from brokerproof.network.shape import Condition, Shape, make_shapes, matches

__all__ = [
    "ADDRESS_TAKEN",
    "AddressOfControl",
    "Condition",
    "Effect",
    "LinkClient",
    "Network",
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
