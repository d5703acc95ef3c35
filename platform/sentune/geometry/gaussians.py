"""Sentences as diagonal Gaussians, compared by KL divergence (GaussCSE, section 2.3).

A packed embedding is ``[mean | log_sigma]``, sigma being the standard deviation. The divergence

    KL(N_i || N_j) = sum_d log(sigma_j / sigma_i) - 1/2
                           + (sigma_i^2 + (mu_i - mu_j)^2) / (2 sigma_j^2)

expands into products of a factor of i and a factor of j. A table of N x M divergences is therefore
one matrix product and needs O(N M) memory. Legend: N, M = sentences, D = packed width, d = D/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from sentune.errors import InvalidValue
from sentune.geometry.base import full_precision
from sentune.geometry.chunks import chunk_size, table_by_rows

# Largest squared distance from the common mean, in standard deviations, for float32. About 6e-8 of
# it is the rounding error in the divergence of two nearly equal Gaussians.
LARGEST_IN_FLOAT32 = 2**13


def unpack(embeddings: Tensor) -> tuple[Tensor, Tensor]:
    """Split packed embeddings [N, 2d] into mean [N, d] and log_sigma [N, d].

    Raises:
        InvalidValue: the packed width is odd.
    """
    width = embeddings.shape[-1]
    if width % 2:
        raise InvalidValue("embedding width", width, "it must be even, for [mean | log_sigma]")
    mean, log_sigma = embeddings.chunk(2, dim=-1)
    return mean, log_sigma


def kl_by_dimension(
    mean_i: Tensor, log_sigma_i: Tensor, mean_j: Tensor, log_sigma_j: Tensor
) -> Tensor:
    """Return KL(N_i || N_j) of one-dimensional Gaussians, elementwise with broadcasting."""
    log_ratio = log_sigma_i - log_sigma_j
    distance = ((mean_i - mean_j) * (-log_sigma_j).exp()).square()
    # expm1 avoids cancellation in e^2r - 1 - 2r if the sigmas are nearly equal.
    return 0.5 * (torch.expm1(2 * log_ratio) - 2 * log_ratio + distance)


@full_precision
def kl_table(first: Tensor, second: Tensor) -> Tensor:
    """Return KL(first_i || second_j) by one matrix product, packed [N, D], [M, D] -> [N, M].

    The product is computed in float64 if the means are far apart compared with the standard
    deviations.
    """
    mean_i, log_i = unpack(first)
    mean_j, log_j = unpack(second)
    # A common shift of all means leaves KL unchanged; removing it reduces cancellation between the
    # expanded squares.
    centre = torch.cat([mean_i, mean_j]).detach().mean(0)
    mean_i, mean_j = mean_i - centre, mean_j - centre
    if _far_apart(mean_j.detach(), log_j.detach()):
        mean_i, log_i, mean_j, log_j = (t.double() for t in (mean_i, log_i, mean_j, log_j))
    precision = (-2 * log_j).exp()
    scaled = mean_j * precision
    left = torch.cat([0.5 * ((2 * log_i).exp() + mean_i.square()), mean_i], dim=1)
    right = torch.cat([precision, -scaled], dim=1)
    of_j = (0.5 * mean_j * scaled + log_j - 0.5).sum(1)
    table = (left @ right.T + of_j - log_i.sum(1, keepdim=True)).clamp(min=0)
    return table.to(first.dtype)


def _far_apart(mean: Tensor, log_sigma: Tensor) -> bool:
    """Return whether float32 is too coarse for close pairs, given centred means [M, d]."""
    squares = (mean * (-log_sigma).exp()).square().sum(1)
    return bool((squares > LARGEST_IN_FLOAT32).any())


@dataclass(frozen=True)
class Gaussians:
    """Gaussians, compared by KL divergence; the entailing sentence has the larger variance.

    Attributes:
        form: ``sum`` is 1 / (1 + sum_d KL_d), the paper's Eq. 3. ``mean`` averages 1 / (1 + KL_d)
            over the dimensions, as the published code does. It needs N x M x d numbers, which are
            computed in chunks and recomputed in the backward pass.
        chunk: maximum number of elements of a temporary of the ``mean`` form; ``None`` chooses it
            by device.
    """

    form: Literal["sum", "mean"] = "sum"
    chunk: int | None = None
    symmetric: bool = False

    def __post_init__(self) -> None:
        if self.form not in ("sum", "mean"):
            raise InvalidValue("form", self.form, "it must be 'sum' or 'mean'")

    @full_precision
    def entails_table(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        """Return sim(h_j || p_i) in (0, 1], [N, D], [M, D] -> [N, M]."""
        if self.form == "sum":
            return (1 / (1 + kl_table(hypotheses, premises))).T
        chunk = chunk_size(self.chunk, premises.device)
        return table_by_rows(_mean_form, unpack(premises), unpack(hypotheses), chunk)

    def entails_tables(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Return two [N, M] tables: first_i entails second_j, and second_j entails first_i."""
        return self.entails_table(first, second), self.entails_table(second, first).T

    @full_precision
    def entails(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        """Return sim(h || p) in (0, 1], [N, D], [N, D] -> [N]."""
        if self.form == "mean":
            return _mean_form(unpack(premises), unpack(hypotheses))
        return 1 / (1 + kl_by_dimension(*unpack(hypotheses), *unpack(premises)).sum(-1))

    @full_precision
    def direction(self, first: Tensor, second: Tensor) -> Tensor:
        """Return log sim(second || first) - log sim(first || second), shape [N].

        It is positive if first entails second.
        """
        return self._log_entails(first, second) - self._log_entails(second, first)

    def _log_entails(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        if self.form == "mean":
            return self.entails(premises, hypotheses).log()
        return -torch.log1p(kl_by_dimension(*unpack(hypotheses), *unpack(premises)).sum(-1))

    @full_precision
    def extent(self, embeddings: Tensor) -> Tensor:
        """Return the sum of log sigma, the paper's variance of an embedding, shape [N]."""
        return unpack(embeddings)[1].sum(-1)

    def entailing_is_larger(self) -> bool:
        return True


def _mean_form(premises: tuple[Tensor, ...], hypotheses: tuple[Tensor, ...]) -> Tensor:
    """Return the mean over the last axis of 1 / (1 + KL_d(h || p))."""
    mean_p, log_p = premises
    mean_h, log_h = hypotheses
    return (1 / (1 + kl_by_dimension(mean_h, log_h, mean_p, log_p))).mean(-1)
