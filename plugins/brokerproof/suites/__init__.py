"""The files of the suites, shipped or written by users, and the rules for their content.

The checks before a run, the commands, the doctor, the DAGs, the configuration of Spark's jobs and judging import this
package. The package must not import Spark or Great Expectations, so that a wrong file is refused before either is
loaded.
"""
