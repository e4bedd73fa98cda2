"""Makes the series that a run's page draws: rates, latencies and samples over time.

The job verify.py uses this package after the judgement. No verdict depends on it.
"""
