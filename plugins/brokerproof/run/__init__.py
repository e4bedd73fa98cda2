"""A run's directory: the schemas of its tables, the records that steps leave for each other, and its live status.

Every package above `experiment` may import it. It must not know what a system, a runtime or a fault is.
"""
