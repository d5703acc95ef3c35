"""The readouts of interpretation embeddings, with the grids of the GumbelCSE paper and below.

GumbelCSE sections 3.2, 4.4 and 5. The paper's alphas run from 0.5 to 1.0 in steps of 0.1. A Gumbel
box does not cover itself (P(b | b) is 0.07 to 0.98), so that many sentences have no reference above
0.5: 87 % of them with 2,874 references and a model tuned on SNLI, against 1 % above 0.3. Hence the
lower ones. Each step down multiplies the references of a sentence by three to five, and the cost of
a pair by the square of that. Alphas are decimals from a list, never sums of 0.1.
"""

from __future__ import annotations

from sentune.readouts.grid import Readout

ALPHA_1 = Readout(
    name="alpha_1",
    grid=(0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    low=0.0,
    high=1.0,
    help="coverage that an interpretation must exceed",
)
ALPHA_2 = Readout(
    name="alpha_2",
    grid=(0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    low=0.0,
    high=1.0,
    help="coverage that an interpretation must stay below",
)
REFERENCES = Readout(
    name="references",
    grid=(5_000, 10_000, 50_000, 100_000, 200_000),
    low=1,
    high=10_000_000,
    integer=True,
    help="n, the training triplets whose sentences are the references",
)
INTERSECTION = Readout(
    name="intersection", grid=("gumbel", "hard"), help="intersection of boxes on the trained model"
)
BETA = Readout(
    name="beta", grid=(), low=0.0, high=1.0, help="threshold of entailment; found exactly"
)
INTERPRETATION = (ALPHA_1, ALPHA_2, REFERENCES, INTERSECTION, BETA)
