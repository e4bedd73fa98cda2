"""Where Brokerproof's pages are within Airflow's."""

from __future__ import annotations

import os

from airflow.sdk.configuration import conf

from brokerproof.machine.processes import SERVICE_MARK

PREFIX = "/brokerproof"


def find_run_page(run_id: str) -> str | None:
    """The address of a run's page; None where Airflow's setting `[api] base_url` does not say where people reach it.

    An embedded Airflow has another port at each start, so the pages of its runs have no address that lasts.
    """
    base: str = conf.get("api", "base_url", fallback="")
    return f"{base.rstrip('/')}{PREFIX}/runs/{run_id}" if base and SERVICE_MARK not in os.environ else None
