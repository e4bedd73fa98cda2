"""Configures and submits Spark jobs, and starts the processes of Spark clusters.

The package also manages the jobs' temporary files, and the class data archive with which jobs start faster. It lets
Spark check the SQL of users' suites before a run.
`orchestration` and `commands` may import this package. It must not import PySpark, which only the jobs import.
"""
