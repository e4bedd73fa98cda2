"""Judges a run: what happened to every message, what was measured, what the suites say, and one verdict.

docs/model.md says what is observed, what is assumed, and what each anomaly claims.

The job verify.py uses it. It imports `brokerproof.run`, `brokerproof.experiment` and what `brokerproof.faults` says of
fault kinds; it must not know Airflow, a messaging system or a runtime.
"""
