#!/bin/sh
# Copies everything that the platform keeps into a new directory: databases, runs, logs, secrets, and what Prometheus and
# Grafana hold. Prometheus and Grafana stop for the time of their copies.
#   backup.sh DIRECTORY
set -eu
umask 077
target=${1:?usage: backup.sh DIRECTORY}
cd "$(dirname "$0")/.."
. deploy/compose.sh
if [ -e "$target" ]; then
  echo "$target exists; name a new directory" >&2
  exit 3
fi
if [ -n "$(docker ps --quiet --filter "label=org.brokerproof.run")" ]; then
  echo "nodes of a run are there; wait until the run has ended, or remove them with \`brokerproof down --here\`" >&2
  exit 3
fi
mkdir -p "$target.unfinished"
compose exec -T postgres pg_dumpall --username postgres --clean --if-exists > "$target.unfinished/backup.sql"
compose exec -T scheduler tar -c -z -f - -C /opt/brokerproof airflow var > "$target.unfinished/backup.tar.gz"
compose stop prometheus grafana
status=0
copy_service prometheus /prometheus > "$target.unfinished/prometheus.tar.gz" || status=$?
copy_service grafana /var/lib/grafana > "$target.unfinished/grafana.tar.gz" || status=$?
compose start prometheus grafana
[ "$status" = 0 ] || exit "$status"
cp "$SETTINGS" "$target.unfinished/backup.env"
cp -R "$SECRETS" "$target.unfinished/secrets"
mv "$target.unfinished" "$target"
echo "wrote $target"
