"""This machine: its Java, its disk, its processes, the slots for clusters, the versions of installed packages.

Every package may import this package. It must not know a run's content, a messaging system or a fault.
"""
