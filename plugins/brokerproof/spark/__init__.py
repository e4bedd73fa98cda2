"""All that knows spark-submit: how a job is submitted, where it keeps temporary files, how it starts faster.

`orchestration` and the command line may import it. It must not import PySpark: that runs in the jobs.
"""
