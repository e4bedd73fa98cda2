"""Judges messages: their attempts, copies and deliveries, and the anomalies that these show.

`run_judging`, `client_counts` and `measurements` may import this package. Its queries are SQL, and each works on one
part of the messages. The package must not know suites or bounds.
"""
