"""Judges a run: finds anomalies of messages, takes measurements, evaluates suites of checks, and concludes one verdict.

The job verify.py uses this package, which reads only the run's directory. It must not know Airflow, a runtime or a
particular messaging system. docs/model.md lists the observations, the assumptions and the claim of each anomaly.
"""
