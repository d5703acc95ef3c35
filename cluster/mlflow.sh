#!/usr/bin/env bash
# MLflow's server on the head: users and passwords, runs in PostgreSQL, artifacts in the object
# store. It listens on the loopback address; `ray dashboard --port 5000` or a tunnel leads there.
set -euo pipefail
cd "$(dirname "$0")"
. ./places.sh
[ ! -d ~/venv/bin ] || PATH=~/venv/bin:$PATH

named() { sed -n "s/^mlflow_tracking_$1 *= *//p" ~/.mlflow/credentials; }
: "${MLFLOW_TRACKING_USERNAME:=$(named username)}" "${MLFLOW_TRACKING_PASSWORD:=$(named password)}"
export MLFLOW_AUTH_ADMIN_USERNAME=${MLFLOW_TRACKING_USERNAME:?write it into ~/.mlflow/credentials}
export MLFLOW_AUTH_ADMIN_PASSWORD=${MLFLOW_TRACKING_PASSWORD:?write it into ~/.mlflow/credentials}
MLFLOW_FLASK_SERVER_SECRET_KEY=$(python -c 'import secrets; print(secrets.token_hex(32))')
MLFLOW_AUTH_CONFIG_PATH=$(mktemp)
export MLFLOW_FLASK_SERVER_SECRET_KEY MLFLOW_AUTH_CONFIG_PATH
export MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false MLFLOW_DISABLE_TELEMETRY=true
cat > "$MLFLOW_AUTH_CONFIG_PATH" <<END
[mlflow]
default_permission = NO_PERMISSIONS
database_uri = $SENTUNE_DATABASE/mlflow_users
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
END
until python databases.py; do sleep 10; done
exec mlflow server --app-name basic-auth --host 127.0.0.1 --port 5000 --workers 1 \
  --backend-store-uri "$SENTUNE_DATABASE/mlflow" \
  --artifacts-destination "$SENTUNE_STORAGE/mlflow" \
  --allowed-hosts '127.0.0.1:*,localhost:*'
