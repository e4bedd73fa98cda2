"""What happened to every message: attempts, copies, deliveries, and the anomalies that they show.

`run_judging` may import it. Its queries on messages are SQL and work part by part; it must not know suites or bounds.
"""
