"""The Great Expectations suites: their files, their kinds of expectation, their evaluation, and a second count.

`verify.py` may import it. It reads the tables that judging wrote and nothing else.
"""
