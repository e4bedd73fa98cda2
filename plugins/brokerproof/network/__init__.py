"""The emulated network between regions: one process a run that every connection between two regions passes through.

A node sees a node of another region at an address of its own making (its hosts file says so), where this process
listens and passes on. What is emulated, and what is not:

- Delay, jitter: a chunk is written when it is due, never earlier. Order holds, so that the delay of a dense stream
  tends to delay + jitter.
- Bandwidth: a line per ordered pair of regions that its connections share in turns. No bursts, no packet loss.
- Connection set-up: `connect` returns at once; the first bytes of both sides wait until they would arrive on a wire
  (1.5 round trips after the SYN for the viewer's, 2 for a greeting of the target's). Jitter spares the set-up.
- A dead target: `connect` succeeds and is reset one round trip later. On a wire it is refused then.
- Bytes while cut are not read, so that the sender's window closes (after its send buffer and about 400 KiB here), and
  those under way are held. On healing all set out again at once; TCP would wait for its next retransmission, up to as
  long again as the cut was.
- FIN and RST travel behind the bytes as FIN and RST; delayed and held like them, so nobody learns of a death across a
  cut before it heals.
- New connections while cut: their SYNs are dropped, so `connect` hangs; it succeeds with the first SYN that is
  repeated after healing, as on a wire. A connection whose SYN was under way at the cut goes on after it.
- A cut in one direction: the other one flows on. On a wire it would stall after a window, because no ACK comes back.
- The sender's kernel gets its ACKs from here, so retransmission and keepalive never time out, however long the cut.
"""
