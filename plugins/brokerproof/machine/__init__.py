"""This machine: its Java, disk, files and processes, its slots (one per running cluster), and its installed packages.

All packages except `experiment`, `settings`, `directories`, `clock` and `errors` may import this one. It must not know
a run's content, a messaging system or a fault.
"""
