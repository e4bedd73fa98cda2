"""Evaluates the Great Expectations suites on a run's tables: kinds of expectation, checked results, and a second count.

`verify.py` may import this package. It reads the suites' files and a run's tables and records, and writes only Data
Docs, the pages that Great Expectations builds about its results.
"""
