"""Where things are in MLflow's pages."""

from __future__ import annotations

from sentune.tracking.mlflow_view import EXPERIMENT
from sentune.tracking.registry import mlflow_client

_TRAINING = "workflowType=machine_learning"  # a fresh browser opens the pages for chat otherwise


def runs_page(tracking_uri: str, experiment: str = EXPERIMENT) -> str:
    """Path of the table of studies on a server over this store, from the root of its address."""
    found = mlflow_client(tracking_uri).get_experiment_by_name(experiment)
    if found is None:
        return f"/#/experiments?{_TRAINING}"
    return f"/#/experiments/{found.experiment_id}/runs?{_TRAINING}"
