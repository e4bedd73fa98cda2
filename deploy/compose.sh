# What backup.sh and restore.sh share; they read it.
SETTINGS=${BROKERPROOF_SETTINGS:-.env}
SECRETS=${BROKERPROOF_SECRETS:-secrets}
if docker compose version > /dev/null 2>&1; then
  compose() { docker compose --env-file "$SETTINGS" "$@"; }
else
  compose() { docker-compose --env-file "$SETTINGS" "$@"; }
fi
# Write an archive of a directory of a service that is stopped, or read one into it.
copy_service() { compose run --rm --no-deps -T --entrypoint tar "$1" -c -z -f - -C "$2" .; }
fill_service() { compose run --rm --no-deps -T --entrypoint tar "$1" -x -z -f - -C "$2"; }
