"""The log server of `testlog` as a messaging system that Brokerproof can run.

`BROKERPROOF_SYSTEMS=testlog=testlog_system.system:TESTLOG` registers it, with this folder's parent on PYTHONPATH.

It is as unlike Pulsar as the seam allows: one role that serves and stores, no coordinator, no repair, no health URL, no
answer to where copies are, offsets with gaps, one consumer a subscription. Only tests may import it.
"""
