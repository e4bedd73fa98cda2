# What the official image's entry point does with what docker-compose.yaml gives it: a server with the password of
# POSTGRES_PASSWORD.
set -eu
data=/var/lib/postgresql/data
as_postgres() { setpriv --reuid postgres --regid postgres --init-groups "$@"; }
mkdir --parents /run/postgresql
chown postgres: "$data" /run/postgresql
chmod 700 "$data"
if [ ! -e "$data/PG_VERSION" ]; then
  printf '%s' "$POSTGRES_PASSWORD" > /run/postgresql/password
  chown postgres: /run/postgresql/password
  as_postgres initdb --pgdata "$data" --username "$POSTGRES_USER" --pwfile /run/postgresql/password \
    --auth-host scram-sha-256 --auth-local trust --encoding UTF8
  rm /run/postgresql/password
  echo 'host all all all scram-sha-256' >> "$data/pg_hba.conf"
fi
exec setpriv --reuid postgres --regid postgres --init-groups postgres -D "$data" -c 'listen_addresses=*'
