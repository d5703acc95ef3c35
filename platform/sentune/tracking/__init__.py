"""MLflow as a view of studies; it imports neither mlflow nor matplotlib until they are used."""

from sentune.tracking.lineage import lineage
from sentune.tracking.reconcile import Tracker
from sentune.tracking.registry import register_model, resolve_model

__all__ = ["Tracker", "lineage", "register_model", "resolve_model"]
