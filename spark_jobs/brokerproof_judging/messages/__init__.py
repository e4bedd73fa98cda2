"""Judges messages: their attempts, copies and deliveries, and the anomalies that these show.

`run_judging`, `client_counts` and `measurements` may import this package. It must not know suites or bounds. Its SQL
queries run in Spark tasks, each on a part of the messages.
"""
