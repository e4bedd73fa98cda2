#!/bin/sh
# When the server starts for the first time: a database for Airflow and one for the history, each with a user of its own.
set -eu
for each in airflow history; do
  password=$(sed 's,.*://[^:]*:\([^@]*\)@.*,\1,' "/run/secrets/${each}_database_url")
  psql --username "$POSTGRES_USER" --set ON_ERROR_STOP=1 --set "password=$password" <<SQL
CREATE USER $each PASSWORD :'password';
CREATE DATABASE $each OWNER $each ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE $each FROM PUBLIC;
SQL
done
