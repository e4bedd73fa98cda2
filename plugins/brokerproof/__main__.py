"""`python -m brokerproof`."""

import sys

from brokerproof.cli import main

sys.exit(main())
