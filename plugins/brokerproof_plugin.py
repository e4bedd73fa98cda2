"""The plugin that Airflow loads. Brokerproof's pages in Airflow's UI will be registered here."""

from airflow.plugins_manager import AirflowPlugin


class BrokerproofPlugin(AirflowPlugin):
    """Brokerproof in Airflow's list of plugins."""

    name = "brokerproof"
