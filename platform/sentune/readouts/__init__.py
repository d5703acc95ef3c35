"""Hyperparameters that need no retraining, swept exhaustively on one trained model."""
