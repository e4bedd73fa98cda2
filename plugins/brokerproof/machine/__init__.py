"""This machine: its Java, disk, files and processes, the slots for clusters, and the versions of installed packages.

Every package may import this package, except `experiment`, `settings`, `directories`, `clock` and `errors`. It must not
know a run's content, a messaging system or a fault.
"""
