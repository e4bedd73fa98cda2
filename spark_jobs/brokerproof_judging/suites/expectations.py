"""The kinds of expectation that the suite files are written in.

Importing this module imports Great Expectations (7 to 10 s) and registers the kinds. Great Expectations drops an
expectation of an unknown kind from a suite that it loads, and only logs that.
"""

from brokerproof_judging.suites.measurement_expectation import ExpectMeasurementWithinBounds
from brokerproof_judging.suites.message_expectation import ExpectNoIllegalAnomaly

__all__ = ["ExpectMeasurementWithinBounds", "ExpectNoIllegalAnomaly"]
