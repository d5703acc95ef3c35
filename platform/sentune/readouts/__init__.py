"""Hyperparameters that need no retraining, swept exhaustively on one trained model."""

from sentune.readouts.threshold import (
    PrecisionRecall,
    Threshold,
    accuracy_at,
    best_threshold,
    precision_recall,
)

__all__ = ["PrecisionRecall", "Threshold", "accuracy_at", "best_threshold", "precision_recall"]
