"""Hyperparameters that need no retraining, swept exhaustively on one trained model."""

from sentune.readouts.grid import Grid, Grids, Readout, grid_of
from sentune.readouts.sweep import SWEEP_FILE, Sweep, sweeps_among
from sentune.readouts.threshold import (
    PrecisionRecall,
    Threshold,
    accuracy_at,
    best_threshold,
    precision_recall,
)

__all__ = [
    "SWEEP_FILE",
    "Grid",
    "Grids",
    "PrecisionRecall",
    "Readout",
    "Sweep",
    "Threshold",
    "accuracy_at",
    "best_threshold",
    "grid_of",
    "precision_recall",
    "sweeps_among",
]
