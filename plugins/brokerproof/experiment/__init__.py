"""The files that a user writes, scenarios and topologies, and their terms: guarantees, anomalies, metrics, verdicts.

Every other package may import it. Its only I/O is reading the user's files. It must not name a messaging system, a
runtime or a kind of fault.
"""
