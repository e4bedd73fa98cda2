"""Judges messages: their attempts, copies and deliveries, and the anomalies that these show.

`run_judging` and `client_counts` may import it. Its queries are SQL and work part by part. It must not know suites or
bounds.
"""
