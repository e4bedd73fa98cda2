"""What all tests share."""

from __future__ import annotations

import signal

# A shell that starts the tests in the background has them ignore Ctrl-C, and Brokerproof leaves that as it is. The
# tests of Ctrl-C would then wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
