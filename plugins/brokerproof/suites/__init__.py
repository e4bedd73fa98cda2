"""The files of the suites, shipped or written by users, and the rules for their content.

The checks before a run, the DAGs and judging may import it. It must not know Spark or Great Expectations, so that a
wrong file is refused before either of them starts.
"""
