"""Makes Airflow's user `admin`, or gives it AIRFLOW_ADMIN_PASSWORD and the role Admin if it has others.

The password is read from the environment or from a file, so no list of processes shows it. If nothing has to change,
the user's sessions go on.
"""

from __future__ import annotations

import sys

from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder
from airflow.utils.providers_configuration_loader import providers_configuration_loaded
from brokerproof.settings import read_secret
from webserver_config import ROLES
from werkzeug.security import check_password_hash

NAME = "admin"


@providers_configuration_loaded
def make_admin(password: str) -> None:
    with get_application_builder() as builder:
        manager = builder.sm
        role = manager.find_role(ROLES["admin"])
        user = manager.find_user(username=NAME)
        if user is None:
            manager.add_user(NAME, NAME, NAME, f"{NAME}@localhost", role, password)
            return
        if not check_password_hash(user.password or "", password):
            manager.reset_password(user.id, password)
        if role not in user.roles or not user.active:
            user.roles, user.active = [*user.roles, role], True
            manager.update_user(user)


if __name__ == "__main__":
    given = read_secret("AIRFLOW_ADMIN_PASSWORD")
    if not given:
        sys.exit("AIRFLOW_ADMIN_PASSWORD is missing; run make compose-secrets")
    make_admin(given)
