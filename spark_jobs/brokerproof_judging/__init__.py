"""Judges a run: finds anomalies of messages, takes measurements, evaluates the suites and concludes one verdict.

docs/model.md lists the observations, the assumptions and the claim of each anomaly.

The job verify.py uses this package. The package reads a run's directory and asks no running system. It must not know
Airflow, a runtime or a particular messaging system.
"""
