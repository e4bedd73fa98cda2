#!/bin/sh
# Fills new volumes from a directory of backup.sh, or of the version before it, which had no secrets/. `docker compose up
# --detach` then starts the platform.
#   restore.sh DIRECTORY
set -eu
umask 077
source=$(cd "${1:?usage: restore.sh DIRECTORY}" && pwd)
cd "$(dirname "$0")/.."
. deploy/compose.sh
for each in backup.sql backup.tar.gz backup.env; do
  if [ ! -r "$source/$each" ]; then
    echo "$source has no $each; name a directory that backup.sh wrote" >&2
    exit 3
  fi
done
if [ -e "$SETTINGS" ] || [ -e "$SECRETS" ]; then
  echo "$SETTINGS or $SECRETS exists; move both away, because the backup brings its own" >&2
  exit 3
fi
cp "$source/backup.env" "$SETTINGS"
[ ! -e "$source/secrets" ] || cp -R "$source/secrets" "$SECRETS"
deploy/make_secrets.sh "$(dirname "$SETTINGS")"
compose up --detach postgres
tries=0
# Over TCP, where the server answers only when its databases are made.
until compose exec -T postgres pg_isready --quiet --host 127.0.0.1 --username postgres; do
  tries=$((tries + 1))
  [ "$tries" -lt 60 ] || { echo "PostgreSQL did not start; see \`docker compose logs postgres\`" >&2; exit 1; }
  sleep 1
done
# The user postgres is there already; the dump sets its password.
grep -v -e '^DROP ROLE IF EXISTS postgres;$' -e '^CREATE ROLE postgres;$' "$source/backup.sql" \
  | compose exec -T postgres psql --username postgres --quiet --set ON_ERROR_STOP=1 > /dev/null
compose run --rm --no-deps -T api-server tar -x -z -f - -C /opt/brokerproof < "$source/backup.tar.gz"
[ ! -e "$source/prometheus.tar.gz" ] || fill_service prometheus /prometheus < "$source/prometheus.tar.gz"
[ ! -e "$source/grafana.tar.gz" ] || fill_service grafana /var/lib/grafana < "$source/grafana.tar.gz"
echo "restored $source; start the platform with \`docker compose up --detach\`"
