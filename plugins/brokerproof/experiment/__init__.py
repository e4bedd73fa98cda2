"""Scenarios and topologies, which users write, and the terms in them: guarantees, anomalies, metrics, verdicts.

All packages and modules except `settings`, `directories`, `clock` and `errors` may import this package. It reads only
the user's files and the settings. It must not name a messaging system, a runtime or a kind of fault.
"""
