"""What a user writes: scenarios and topologies, and the words that they use (guarantees, anomalies, metrics, verdicts).

Everybody may import it. It does no I/O but reading the user's files, and it knows no messaging system, no runtime and
no fault by name.
"""
