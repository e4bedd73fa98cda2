"""Evaluates the Great Expectations suites on a run's tables.

The package defines Brokerproof's own kinds of expectation, checks the library's results, and counts the rows a second
time without the library. `verify.py` may import this package. The package reads the suites' files and a run's tables
and records. It writes only Data Docs, the pages that Great Expectations builds about its results.
"""
