"""Configures and submits Spark jobs, and starts the processes of Spark clusters.

The package also manages the jobs' temporary files, the class data archive with which jobs start faster, and the check of
the SQL of users' suites before a run.
`orchestration` and `commands` may import this package. It must not import PySpark, which only the jobs import.
"""
