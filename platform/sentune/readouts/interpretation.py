"""The readouts of interpretation embeddings (GumbelCSE sections 3.2, 4.4 and 5).

A job sweeps the grids of ``search_spaces/gumbel.py``; those here serve where there is no search
space and are the same. Alphas are decimals from a list, never sums of 0.1.
"""

from __future__ import annotations

from sentune.readouts.grid import Readout

ALPHA_1 = Readout(name="alpha_1", grid=(0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9), low=0.0, high=1.0)
"""Coverage that an interpretation must exceed."""
ALPHA_2 = Readout(name="alpha_2", grid=(0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0), low=0.0, high=1.0)
"""Coverage that an interpretation must stay below."""
REFERENCES = Readout(
    name="references",
    grid=(5_000, 10_000, 50_000, 100_000, 200_000),
    low=1,
    high=10_000_000,
    integer=True,
)
"""n, the training triplets whose sentences are the references."""
INTERSECTION = Readout(name="intersection", grid=("gumbel", "hard"))
"""Intersection of boxes on the trained model."""
BETA = Readout(name="beta", grid=(), low=0.0, high=1.0)
"""Threshold of entailment; found exactly."""
INTERPRETATION = (ALPHA_1, ALPHA_2, REFERENCES, INTERSECTION, BETA)
