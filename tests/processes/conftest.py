"""What tests with real processes share."""

from __future__ import annotations

import os

# A developer's own files are none of the tests' business.
for name in ("BROKERPROOF_SCENARIOS", "BROKERPROOF_TOPOLOGIES", "BROKERPROOF_EXPECTATIONS"):
    os.environ.pop(name, None)
