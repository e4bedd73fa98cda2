# What the official image's entry point does with what docker-compose.yaml gives it: a server with the password of the
# file POSTGRES_PASSWORD_FILE.
set -eu
data=/var/lib/postgresql/data
if [ ! -e "$data/PG_VERSION" ]; then
  initdb --pgdata "$data" --username "$POSTGRES_USER" --pwfile "$POSTGRES_PASSWORD_FILE" \
    --auth-host scram-sha-256 --auth-local trust --encoding UTF8
  echo 'host all all all scram-sha-256' >> "$data/pg_hba.conf"
fi
exec postgres -D "$data" -c 'listen_addresses=*'
