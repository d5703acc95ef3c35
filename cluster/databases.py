"""Makes the databases of places.sh where they are missing: Optuna's, MLflow's, MLflow's users."""

from __future__ import annotations

import os

from sqlalchemy import create_engine, text

engine = create_engine(os.environ["SENTUNE_DATABASE"] + "/postgres", isolation_level="AUTOCOMMIT")
with engine.connect() as connection:
    there = set(connection.scalars(text("SELECT datname FROM pg_database")))
    for name in {"optuna", "mlflow", "mlflow_users"} - there:
        connection.execute(text(f"CREATE DATABASE {name}"))
