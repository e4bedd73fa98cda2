"""A run's directory: the schemas of its tables, the records that steps leave for each other, and its live status.

This package must not know a messaging system, a runtime or a kind of fault. All packages may import it except those
below it in the layers of pyproject.toml, such as `machine` and `experiment`.
"""
