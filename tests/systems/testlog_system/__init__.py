"""The log server of `testlog` as a messaging system that Brokerproof can run.

`BROKERPROOF_SYSTEMS=testlog=testlog_system.system:TESTLOG` registers it, with this folder's parent on PYTHONPATH.

It differs from Pulsar as much as the protocols of `systems` allow: one role serves and stores, offsets have gaps, and a
subscription has one consumer. It has no coordinator, no repair and no health URL, and does not tell where copies are.
Only tests may import it.
"""
