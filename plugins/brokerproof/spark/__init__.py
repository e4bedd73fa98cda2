"""The use of spark-submit: the configuration of a job, its submission, its temporary files, and its faster start.

`orchestration` and `commands` may import this package. It must not import PySpark, which only the jobs import.
"""
