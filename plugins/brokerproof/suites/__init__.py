"""The files of the suites: the shipped ones, users' own, and what may stand in them.

The checks before a run, the DAGs and judging may import it. It must not know Spark or Great Expectations: a file is
refused before either of them starts.
"""
