"""A run's directory: the schemas of its tables, the records that steps leave for each other, and its live status.

All packages may import it except `experiment`, `machine`, `settings` and those below them. It must not know a messaging
system, a runtime or a kind of fault.
"""
