"""The embedded Airflow: an Airflow that the command line starts on this machine if it needs one.

`commands` may import this package. The package starts Airflow's programs, but must not import Airflow, because the
import takes seconds. It must not know which DAGs exist.
"""
