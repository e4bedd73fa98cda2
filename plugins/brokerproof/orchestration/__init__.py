"""All that connects Brokerproof with Airflow: DAGs, the embedded Airflow, following runs, UI pages, notifications.

Only the DAG files, Airflow's plugin and `commands` may import this package. It must not know a messaging system. Each
package below says whether it may import Airflow. All these packages may use the modules `dag_run` and `steps`.
"""
