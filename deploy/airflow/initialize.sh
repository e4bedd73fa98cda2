#!/bin/sh
# Before Airflow's services start: its database with the tables of its users, its user `admin`, and the history's
# database. It can be repeated. Airflow's logins of Brokerproof 0.2 and earlier were in a file, which is removed.
set -eu
airflow db migrate
python "$(dirname "$0")/make_admin.py"
rm -f "$AIRFLOW_HOME/passwords.json"
brokerproof history > /dev/null
