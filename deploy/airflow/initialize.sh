#!/bin/sh
# Before the other services start: the databases with their users, the tables of Airflow and of the history, and the
# password of the user `admin`.
set -eu
umask 077
printf '{"admin": "%s"}\n' "$AIRFLOW_ADMIN_PASSWORD" > "$AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"
python deploy/airflow/databases.py
# What follows needs no superuser.
unset PGUSER PGPASSWORD
airflow db migrate
brokerproof history > /dev/null
