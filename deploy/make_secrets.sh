#!/bin/sh
# Writes a file with a new password for everything that asks for one: .env, or the file that is named. A file that is
# there already keeps all that it has, and gets what a newer version asks for in addition.
set -eu
file=${1:-$(dirname "$0")/../.env}
new=$file.new
random() { python3 -c 'import secrets; print(secrets.token_urlsafe(24))'; }
added=
# Adds a variable to the file unless it is there. The rest of the arguments is a command that writes the value.
add() {
  name=$1
  shift
  if ! grep -q "^$name=" "$new"; then
    value=$("$@")
    printf '%s=%s\n' "$name" "$value" >> "$new"
    added="$added $name"
  fi
}
find_socket() {
  socket=${DOCKER_SOCKET:-/var/run/docker.sock}
  if [ ! -S "$socket" ]; then
    echo "no Docker engine listens at $socket; start it, or name its socket in DOCKER_SOCKET" >&2
    return 1
  fi
  echo "$socket"
}
umask 077
trap 'rm -f "$new"' EXIT
if [ -e "$file" ]; then
  # The last line may have no end.
  sed '$a\' "$file" > "$new"
else
  echo '# Passwords and keys of docker-compose.yaml, made by `make compose-secrets`. The user of Airflow and Grafana is admin.' > "$new"
fi
add DOCKER_SOCKET find_socket
for each in AIRFLOW_ADMIN_PASSWORD GRAFANA_ADMIN_PASSWORD POSTGRES_PASSWORD AIRFLOW_DB_PASSWORD HISTORY_DB_PASSWORD \
  HISTORY_READER_DB_PASSWORD AIRFLOW_SECRET_KEY AIRFLOW_JWT_SECRET; do
  add "$each" random
done
add AIRFLOW_FERNET_KEY python3 -c 'import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())'
# Tells this installation's runs from those of others on the same engine.
add BROKERPROOF_INSTALLATION python3 -c 'import secrets; print(secrets.token_hex(4))'
if [ -z "$added" ]; then
  echo "$file has everything already and stays as it is; remove it, and the volumes with it, for new passwords"
elif [ -e "$file" ]; then
  mv "$new" "$file"
  echo "added to $file:$added"
else
  mv "$new" "$file"
  echo "wrote $file; AIRFLOW_ADMIN_PASSWORD and GRAFANA_ADMIN_PASSWORD in it let you in as admin"
fi
