#!/bin/sh
# Before the other services start: the databases with their users, the tables of Airflow and of the history, and Airflow's
# user `admin`. It can be repeated. Airflow's logins of Brokerproof 0.2 and earlier were in a file, which is removed.
set -eu
# Only this program is the superuser.
PGHOST=postgres PGUSER=postgres PGPASSWORD=$(cat /run/secrets/postgres_password) \
  AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=$(cat /run/secrets/airflow_database_url) python deploy/airflow/databases.py
airflow db migrate
python deploy/airflow/make_admin.py
rm -f "$AIRFLOW_HOME/passwords.json"
brokerproof history > /dev/null
