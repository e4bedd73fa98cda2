#!/bin/sh
# Writes a file with a new password for everything that asks for one, once: .env, or the one that is named.
set -eu
file=${1:-$(dirname "$0")/../.env}
if [ -e "$file" ]; then
  echo "$file is there already and stays as it is; remove it, and the volumes with it, for new passwords"
  exit 0
fi
socket=${DOCKER_SOCKET:-/var/run/docker.sock}
if [ ! -S "$socket" ]; then
  echo "no Docker engine listens at $socket; start it, or name its socket in DOCKER_SOCKET" >&2
  exit 1
fi
random() { python3 -c 'import secrets; print(secrets.token_urlsafe(24))'; }
fernet() { python3 -c 'import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())'; }
umask 077
cat > "$file.new" <<EOF
# Passwords and keys of docker-compose.yaml, made by \`make compose-secrets\`. The user of Airflow and Grafana is admin.
AIRFLOW_ADMIN_PASSWORD=$(random)
GRAFANA_ADMIN_PASSWORD=$(random)
POSTGRES_PASSWORD=$(random)
AIRFLOW_DB_PASSWORD=$(random)
HISTORY_DB_PASSWORD=$(random)
AIRFLOW_FERNET_KEY=$(fernet)
AIRFLOW_SECRET_KEY=$(random)
AIRFLOW_JWT_SECRET=$(random)
DOCKER_SOCKET=$socket
# Tells this installation's runs from those of others on the same engine.
BROKERPROOF_INSTALLATION=$(python3 -c 'import secrets; print(secrets.token_hex(4))')
EOF
mv "$file.new" "$file"
echo "wrote $file; AIRFLOW_ADMIN_PASSWORD and GRAFANA_ADMIN_PASSWORD in it let you in as admin"
