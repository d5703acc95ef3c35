"""The loss against double loops written from the papers' equations."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch

from sentune.errors import InvalidValue
from sentune.geometry import Boxes, Gaussians, Points, TermWeights, contrastive_loss
from tests.rounding import rounding

GEOMETRIES = {
    "points": Points(),
    "gaussians": Gaussians(),
    "gaussians, mean form": Gaussians("mean"),
    "boxes": Boxes(0.5),
    "boxes, untied": Boxes(0.5, 0.3),
}
N, D, TAU = 3, 8, 0.05
# N logarithms of sums and N positive pairs, of similarities of D dimensions that are divided by tau
LOSS_ERROR = rounding(4 * D, 2 * N / TAU)
SLOPE_ERROR = LOSS_ERROR / TAU


def triplets() -> list[torch.Tensor]:
    return [torch.randn(N, D, dtype=torch.float64, requires_grad=True) for _ in range(3)]


class ByLoops:
    """The loss of GaussCSE Eq. 4 and GumbelCSE Eq. 8-12, a pair at a time.

    A pair's e(x, y) is computed once for all weights; the sums run as the equations have them.
    """

    def __init__(self, anchor, positive, negative, geometry, tau=TAU) -> None:
        self.rows = {"s": anchor, "+": positive, "-": negative}
        self.geometry, self.tau, self.known = geometry, tau, {}

    def e(self, x: str, i: int, y: str, j: int) -> torch.Tensor:
        """exp(how far row i of x entails row j of y / tau)."""
        if (x, i, y, j) not in self.known:
            first, second = self.rows[x][i][None], self.rows[y][j][None]
            self.known[x, i, y, j] = (self.geometry.entails(first, second)[0] / self.tau).exp()
        return self.known[x, i, y, j]

    def loss(self, weights: TermWeights) -> torch.Tensor:
        """Sum over i of loss_i."""
        count = len(self.rows["s"])
        total = torch.zeros((), dtype=torch.float64)
        for i in range(count):
            denominator = torch.zeros((), dtype=torch.float64)
            for j in range(count):
                denominator = denominator + weights.entailment * self.e("s", i, "+", j)
                if weights.reverse_orientation == "premises":
                    denominator = denominator + weights.reverse * self.e("+", i, "s", j)
                else:
                    denominator = denominator + weights.reverse * self.e("+", j, "s", i)
                if self.rows["-"] is not None:
                    denominator = denominator + weights.contradiction * self.e("s", i, "-", j)
                    back = self.e("-", j, "s", i)
                    denominator = denominator + weights.reverse_contradiction * back
            total = total - (self.e("s", i, "+", i) / denominator).log()
        return total


def weights_of(values: tuple[float, ...], orientation: str) -> TermWeights:
    names = ("entailment", "contradiction", "reverse", "reverse_contradiction")
    return TermWeights(**dict(zip(names, values, strict=True)), reverse_orientation=orientation)


@pytest.mark.parametrize("orientation", ["premises", "hypotheses"])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_every_combination_of_terms_is_the_equations(name, orientation):
    columns = triplets()
    by_loops = ByLoops(*columns, GEOMETRIES[name])
    for values in product((0.0, 2.5), (0.0, 1.0), (0.0, 8.0), (0.0, 0.5)):
        if not any(values):
            continue
        weights = weights_of(values, orientation)
        expected = by_loops.loss(weights)
        wanted = torch.autograd.grad(expected, columns, allow_unused=True, retain_graph=True)
        loss = contrastive_loss(
            *columns, geometry=GEOMETRIES[name], weights=weights, temperature=TAU
        )
        found = torch.autograd.grad(loss, columns, allow_unused=True)
        torch.testing.assert_close(loss, expected, rtol=0, atol=LOSS_ERROR)
        for slope, gradient in zip(found, wanted, strict=True):
            zero = torch.zeros(N, D, dtype=torch.float64)
            slope, gradient = (zero if g is None else g for g in (slope, gradient))
            torch.testing.assert_close(slope, gradient, rtol=0, atol=SLOPE_ERROR)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_pairs_without_hard_negatives(name):
    anchor, positive, _ = triplets()
    weights = TermWeights(reverse=1.0, reverse_contradiction=1.0)
    loss = contrastive_loss(
        anchor, positive, None, geometry=GEOMETRIES[name], weights=weights, temperature=TAU
    )
    expected = ByLoops(anchor, positive, None, GEOMETRIES[name]).loss(weights)
    torch.testing.assert_close(loss, expected, rtol=0, atol=LOSS_ERROR)


def test_simcse_is_the_cross_entropy_of_its_code():
    anchor, positive, negative = triplets()
    x, y, z = (torch.nn.functional.normalize(t, dim=1) for t in (anchor, positive, negative))
    logits = x @ torch.cat([y, z]).T / TAU
    expected = torch.nn.functional.cross_entropy(logits, torch.arange(N), reduction="sum")
    loss = contrastive_loss(
        anchor, positive, negative, geometry=Points(), weights=TermWeights(), temperature=TAU
    )
    torch.testing.assert_close(loss, expected)


def test_the_papers_orientations_have_different_gradients():
    columns, gradients = triplets(), []
    for orientation in ("premises", "hypotheses"):
        loss = contrastive_loss(
            *columns,
            geometry=Gaussians(),
            weights=TermWeights(reverse=1.0, reverse_orientation=orientation),
            temperature=TAU,
        )
        gradients.append(torch.cat(torch.autograd.grad(loss, columns)))
    assert (gradients[0] - gradients[1]).norm() > 0.1 * gradients[0].norm()


@pytest.mark.parametrize(
    ("geometry", "orientation"), [(Gaussians(), "premises"), (Boxes(0.5), "hypotheses")]
)
def test_a_premise_learns_to_entail_its_hypothesis(geometry, orientation):
    """A few steps on the embeddings alone: wide Gaussian premises, small premise boxes."""
    columns = [0.1 * torch.randn(8, 8, dtype=torch.float64) for _ in range(3)]
    leaves = [column.requires_grad_() for column in columns]
    weights = TermWeights(reverse=1.0, reverse_orientation=orientation)
    optimiser = torch.optim.Adam(leaves, lr=0.02)
    for _ in range(80):
        optimiser.zero_grad()
        contrastive_loss(*leaves, geometry=geometry, weights=weights, temperature=0.05).backward()
        optimiser.step()
    premise, hypothesis = leaves[0].detach(), leaves[1].detach()
    larger = geometry.extent(premise) > geometry.extent(hypothesis)
    assert (larger == geometry.entailing_is_larger()).all()
    assert (geometry.direction(premise, hypothesis) > 0).all()
    forward, back = geometry.entails(premise, hypothesis), geometry.entails(hypothesis, premise)
    assert (forward > back).all()


def test_boxes_that_never_overlap_lose_log_of_the_number_of_candidates():
    centers = [200.0 * k + 50.0 * torch.arange(4)[:, None].expand(4, 16) for k in range(3)]
    far = [torch.cat([center, torch.zeros(4, 16)], dim=1) for center in centers]
    weights = TermWeights(reverse=1, reverse_contradiction=1, reverse_orientation="hypotheses")
    loss = contrastive_loss(*far, geometry=Boxes(0.1), weights=weights, temperature=0.05)
    assert loss.item() / 4 == pytest.approx(math.log(4 * 4), rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"entailment": -1.0}, "entailment"),
        ({"reverse": math.nan}, "reverse"),
        ({"entailment": 0.0, "contradiction": 0.0}, "weights"),
        ({"reverse_orientation": "both"}, "reverse_orientation"),
    ],
)
def test_weights_that_mean_nothing_are_refused(arguments, field):
    with pytest.raises(InvalidValue, match=field):
        TermWeights(**arguments)


def test_a_loss_that_means_nothing_is_refused():
    columns = triplets()
    with pytest.raises(InvalidValue, match="temperature"):
        contrastive_loss(*columns, geometry=Points(), weights=TermWeights(), temperature=0.0)
    only_negatives = TermWeights(entailment=0.0)
    with pytest.raises(InvalidValue, match="hard negatives"):
        contrastive_loss(
            *columns[:2], None, geometry=Points(), weights=only_negatives, temperature=0.05
        )
