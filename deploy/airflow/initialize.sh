#!/bin/sh
# Before Airflow's services start: its database, the history's, and the password of the user `admin`.
set -eu
umask 077
printf '{"admin": "%s"}\n' "$(cat /run/secrets/airflow_admin_password)" > "$AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"
airflow db migrate
brokerproof history > /dev/null
