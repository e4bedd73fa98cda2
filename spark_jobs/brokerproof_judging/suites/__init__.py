"""The Great Expectations suites: their files, their kinds of expectation, their evaluation, and a second count.

`verify.py` may import this package. It reads a run's tables and records, and writes only Data Docs.
"""
