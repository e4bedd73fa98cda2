"""The files of suites (sets of expectations that judge a run), shipped or written by users, and the rules for them.

This package is imported by the checks before a run, the commands, the doctor, the DAGs, judging, and the configuration
of Spark's jobs. It must not import Spark or Great Expectations, so that a wrong file is refused before either is
loaded.
"""
