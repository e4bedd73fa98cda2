"""What happened to every message: attempts, copies, deliveries, and the anomalies that they show.

`run_judging` may import it. What it asks of messages is SQL, part by part; it must not know suites or bounds.
"""
