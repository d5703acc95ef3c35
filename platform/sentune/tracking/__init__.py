"""MLflow as a view of studies; it imports neither mlflow nor matplotlib until they are used."""

from sentune.tracking.lineage import lineage
from sentune.tracking.registry import resolve_model
from sentune.tracking.tracker import Tracker

__all__ = ["Tracker", "lineage", "resolve_model"]
