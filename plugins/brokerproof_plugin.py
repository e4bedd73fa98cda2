"""What Airflow loads of Brokerproof; the pages in its UI will be registered here."""

from airflow.plugins_manager import AirflowPlugin


class BrokerproofPlugin(AirflowPlugin):
    """Brokerproof in Airflow's list of plugins."""

    name = "brokerproof"
