"""The Airflow plugin that adds Brokerproof's pages to Airflow's UI.

Every process of Airflow loads plugins, even the process of a task. So the web application with the pages is imported
only when a page is first requested, which happens only in the API server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin
from brokerproof.orchestration.airflow_pages.page_addresses import PREFIX


class LateApplication:
    """An ASGI application that is made when it is called for the first time."""

    @cached_property
    def _application(self) -> Any:
        from brokerproof.orchestration.airflow_pages.report_app import make_report_app

        return make_report_app()

    async def __call__(
        self, scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        """Pass the request to the real application, and make it first if this is the first request."""
        await self._application(scope, receive, send)


class BrokerproofPlugin(AirflowPlugin):
    """An entry in the navigation, and a tab on each DAG and on each DAG run.

    The addresses of the pages are relative to Airflow's own address, which a proxy may put below a path.
    """

    name = "brokerproof"
    fastapi_apps: ClassVar[list[Any]] = [{"app": LateApplication(), "url_prefix": PREFIX, "name": "Brokerproof"}]
    external_views: ClassVar[list[Any]] = [
        {"name": "Brokerproof", "href": "brokerproof/", "destination": "nav", "url_route": "brokerproof"},
        {
            "name": "Results",
            "href": "brokerproof/dags/{DAG_ID}",
            "destination": "dag",
            "url_route": "brokerproof_scenario",
        },
        {
            "name": "Report",
            "href": "brokerproof/dags/{DAG_ID}/runs/{RUN_ID}",
            "destination": "dag_run",
            "url_route": "brokerproof_run",
        },
    ]
