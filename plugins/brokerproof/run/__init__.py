"""A run's directory: the schemas of its tables, what steps leave for each other, and what it shows while it goes on.

Everybody above `experiment` may import it. It must not know what a system, a runtime or a fault is.
"""
