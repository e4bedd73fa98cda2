"""Everything that knows spark-submit: the configuration of a job, its submission, its temporary files, its faster start.

`orchestration` and the command line may import it. It must not import PySpark, which only the jobs import.
"""
