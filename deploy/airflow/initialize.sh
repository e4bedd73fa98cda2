#!/bin/sh
# Before the other services start: the databases with their users, the tables of Airflow and of the history, and the
# password of the user `admin`.
set -eu
umask 077
printf '{"admin": "%s"}\n' "$(cat /run/secrets/airflow_admin_password)" > "$AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"
# Only this program is the superuser.
PGHOST=postgres PGUSER=postgres PGPASSWORD=$(cat /run/secrets/postgres_password) \
  AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=$(cat /run/secrets/airflow_database_url) python deploy/airflow/databases.py
airflow db migrate
brokerproof history > /dev/null
