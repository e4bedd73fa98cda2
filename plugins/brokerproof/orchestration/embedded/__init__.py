"""The embedded Airflow's life: its environment, its processes, and how it is started, described and stopped.

`commands` may import it. It starts Airflow's programs, but must not import Airflow, which takes seconds. It must not
know which DAGs there are.
"""
