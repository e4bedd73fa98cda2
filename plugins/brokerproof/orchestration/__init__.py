"""Everything between Brokerproof and Airflow: DAGs and operators, the embedded Airflow, its UI pages, notifications.

Only the DAG files, Airflow's plugin and `commands` may import this package. It must not know a messaging system. Each
package below says whether it may import Airflow. All of them may use the modules `dag_run` and `steps`.
"""
