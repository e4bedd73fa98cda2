"""The addresses of Brokerproof's pages in Airflow's UI."""

from __future__ import annotations

import os

from airflow.sdk.configuration import conf

from brokerproof.machine.processes import SERVICE_MARK

PREFIX = "/brokerproof"


def find_run_page(run_id: str) -> str | None:
    """Return the URL of a run's page, or None if Airflow's setting `[api] base_url` is empty or Airflow is embedded.

    An embedded Airflow can have another port at each start, so the URLs of its pages do not last.
    """
    base: str = conf.get("api", "base_url", fallback="")
    return f"{base.rstrip('/')}{PREFIX}/runs/{run_id}" if base and SERVICE_MARK not in os.environ else None
