"""The files of suites (sets of expectations that judge a run), shipped or written by users, and the rules for them.

The checks before a run, the commands, the doctor, the DAGs, the configuration of Spark's jobs and judging import this
package. It must not import Spark or Great Expectations, so that a wrong file is refused before either is loaded.
"""
