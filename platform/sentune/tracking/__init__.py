"""MLflow as a view of studies; mlflow and matplotlib are imported only when they are used."""

from sentune.tracking.lineage import lineage
from sentune.tracking.registry import resolve_model
from sentune.tracking.tracker import Tracker

__all__ = ["Tracker", "lineage", "resolve_model"]
