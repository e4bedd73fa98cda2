#!/bin/sh
# Writes the passwords and keys of docker-compose.yaml into secrets/, one file each, and its other settings into .env.
# A file that exists stays. Passwords that an older version wrote into .env move into secrets/.
#   make_secrets.sh [DIRECTORY]     the directory of both, the project's by default
set -eu
umask 077
directory=${1:-$(dirname "$0")/..}
settings=$directory/.env
secrets=$directory/secrets
old='AIRFLOW_ADMIN_PASSWORD GRAFANA_ADMIN_PASSWORD POSTGRES_PASSWORD AIRFLOW_DB_PASSWORD HISTORY_DB_PASSWORD HISTORY_READER_DB_PASSWORD
  AIRFLOW_FERNET_KEY AIRFLOW_SECRET_KEY AIRFLOW_JWT_SECRET BROKERPROOF_NOTIFY OIDC_CLIENT_SECRET'

# The value of a variable of .env, without quotes around it; empty if there is none.
find_setting() {
  [ ! -e "$settings" ] || sed -n "s/^$1=//p" "$settings" | tail -n 1 | sed "s/^'\(.*\)'\$/\1/; s/^\"\(.*\)\"\$/\1/"
}
# So many random bytes, in letters that a URL may have.
make_password() { head -c "${1:-24}" /dev/urandom | base64 | tr '+/' '-_'; }
# The containers' users read the files, and the directory keeps out other users of this machine.
write_secret() {
  [ -e "$secrets/$1" ] || { printf '%s\n' "$2" > "$secrets/$1.new" && chmod 644 "$secrets/$1.new" && mv "$secrets/$1.new" "$secrets/$1"; }
}
# The old value, or a new password.
choose() {
  found=$(find_setting "$1")
  [ -n "$found" ] && printf '%s' "$found" || make_password
}

socket=$(find_setting DOCKER_SOCKET)
socket=${DOCKER_SOCKET:-${socket:-/var/run/docker.sock}}
if [ ! -S "$socket" ]; then
  echo "no Docker engine listens at $socket; start it, or name its socket in DOCKER_SOCKET" >&2
  exit 1
fi
mkdir -p "$secrets"
chmod 700 "$secrets"
write_secret postgres_password "$(choose POSTGRES_PASSWORD)"
write_secret airflow_database_url "postgresql+psycopg://airflow:$(choose AIRFLOW_DB_PASSWORD)@postgres/airflow"
write_secret airflow_admin_password "$(choose AIRFLOW_ADMIN_PASSWORD)"
fernet=$(find_setting AIRFLOW_FERNET_KEY)
write_secret airflow_fernet_key "${fernet:-$(make_password 32)}"
write_secret airflow_secret_key "$(choose AIRFLOW_SECRET_KEY)"
write_secret airflow_jwt_secret "$(choose AIRFLOW_JWT_SECRET)"
write_secret history_database_url "postgresql+psycopg://history:$(choose HISTORY_DB_PASSWORD)@postgres/history"
write_secret history_reader_url "postgresql+psycopg://reader:$(choose HISTORY_READER_DB_PASSWORD)@postgres/history"
write_secret grafana_admin_password "$(choose GRAFANA_ADMIN_PASSWORD)"
write_secret spark_secret "$(make_password)"
# The secret with which Airflow is known to a provider of OpenID Connect.
write_secret oidc_client_secret "$(find_setting OIDC_CLIENT_SECRET)"
# The rules of notifications, which may hold passwords.
write_secret notify "$(find_setting BROKERPROOF_NOTIFY)"

if [ ! -e "$settings" ]; then
  cat > "$settings.new" <<EOF
# Settings of docker-compose.yaml, made by \`make compose-secrets\`. Passwords and keys are in secrets/.
DOCKER_SOCKET=$socket
# Tells this installation's runs from those of others on the same engine.
BROKERPROOF_INSTALLATION=$(od -An -tx1 -N4 /dev/urandom | tr -d ' \n')
EOF
  mv "$settings.new" "$settings"
else
  # shellcheck disable=SC2086
  pattern=$(printf '|%s' $old)
  grep -Ev "^(${pattern#|})=" "$settings" > "$settings.new" || true
  mv "$settings.new" "$settings"
fi
echo "$secrets holds the passwords; the user of Airflow and of Grafana is admin, and the files are
airflow_admin_password and grafana_admin_password"
