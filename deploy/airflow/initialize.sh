#!/bin/sh
# Before the other services start: the databases with their users, the tables of Airflow and of the history, and Airflow's
# user `admin`. It can be repeated. Airflow's logins of Brokerproof 0.2 and earlier were in a file, which is removed.
set -eu
here=$(dirname "$0")
# A PostgreSQL elsewhere has its databases and users already. Only this program is the superuser.
if [ -e /run/secrets/postgres_password ]; then
  PGHOST=postgres PGUSER=postgres PGPASSWORD=$(cat /run/secrets/postgres_password) \
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=$(cat /run/secrets/airflow_database_url) python "$here/databases.py"
fi
airflow db migrate
python "$here/make_admin.py"
rm -f "$AIRFLOW_HOME/passwords.json"
brokerproof history > /dev/null
