"""The use of spark-submit: the configuration of a job, its submission, its temporary files, a faster start.

`orchestration` and `commands` may import it. It must not import PySpark, which only the jobs import.
"""
