"""This machine: its Java, disk, files and processes, its slots (one per running cluster), and its installed packages.

Every package may import this one, except `experiment`, `settings`, `directories`, `clock` and `errors`. It must not
know a run's content, a messaging system or a fault.
"""
