"""Evaluates the Great Expectations suites on a run's tables.

The package defines Brokerproof's own kinds of expectation, and checks Great Expectations' results with a second count
of the rows. It reads the suites' files and a run's tables and records. It writes only Data Docs, Great Expectations'
pages about its results. `verify.py` may import this package.
"""
