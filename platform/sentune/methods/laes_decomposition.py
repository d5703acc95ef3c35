"""From the statistics of LAES to its autoencoder: one decomposition for every number of units.

LAES section IV-A: with Xi = V Sigma U^T the encoder is A = U_1^T and B = Q^T, where
Q = Sigma V^T R^T V Sigma^-1. As G = Xi^T Xi and G U = U Lambda, that is
Q = U^T S U Lambda^-1 with S = G moved up by one block row, and S U = (G U moved up) =
(U moved up) Lambda. So Lambda cancels and Q = U_1^T U_2 + ... + U_(l-1)^T U_l: nothing is divided
by small eigenvalues, and G is not needed again. Leading blocks of A and B are the model of fewer
units, exactly.

Legend: n = width of a word vector, l = words of the longest sentence, D = l n, T = words in all,
P = units of the largest model.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, svd
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from sentune.errors import TrialFailed
from sentune.methods.closed_form import eigenvectors
from sentune.methods.laes_statistics import Gram

_LOGGER = logging.getLogger(__name__)

Floats = NDArray[np.float64]
Solver = Literal["auto", "exact", "lanczos"]

_SMALL = 2_000
"""D up to which the exact solver takes a few seconds at most."""

_SHARE = 10
"""Above D / 10 eigenvectors the exact solver is faster: for D = 7,500 Lanczos took 450 products of
48 ms for 150 eigenvectors, and their number grows with the eigenvectors'."""

_ON_GPU = 20_000
"""D up to which a GPU decomposes the whole matrix, which takes 3.2 GB, and as much three times."""

_RESIDUAL = 1e-8
"""Residual above which a warning is logged; a converged solver stays near 1e-14."""


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    """The leading eigenvectors of G = Xi^T Xi.

    Attributes:
        U: [D, P] eigenvectors, the largest entry of each positive.
        eigenvalues: [P], the largest first.
        residual: max over the eigenvectors of |G u - lambda u| / lambda_1.
    """

    U: Floats
    eigenvalues: Floats
    residual: float


@dataclass(frozen=True, kw_only=True)
class Units:
    """A linear autoencoder for sequences; its leading blocks are those of fewer units.

    Attributes:
        A: [P, n].
        B: [P, P].
    """

    A: Floats
    B: Floats

    def __len__(self) -> int:
        return len(self.A)

    @classmethod
    def of(cls, spectrum: Spectrum, width: int) -> Units:
        """Return A and B of the eigenvectors' first block and of its shift (LAES Eq. 3 to 5)."""
        U = spectrum.U
        return cls(A=U[:width].T.copy(), B=U[width:].T @ U[:-width])


def of_gram(gram: Gram, largest: int, solver: Solver = "auto", device: str = "cpu") -> Spectrum:
    """Return the ``largest`` leading eigenvectors of a Gram matrix.

    Args:
        solver: ``exact`` writes G down as D x D and calls LAPACK; ``lanczos`` (ARPACK) multiplies
            by it some three times per eigenvector; ``auto`` takes what is faster.
        device: on which ``exact`` decomposes; Lanczos' products stay on the CPU.

    Raises:
        TrialFailed: the sentences span fewer units, or Lanczos does not converge.
    """
    _enough(largest, gram.size)
    gram.sum_diagonals()
    faster = _lanczos_is_faster(gram.size, largest, device)
    lanczos = solver == "lanczos" or (solver == "auto" and faster)
    if lanczos and largest < gram.size:
        values, U = _lanczos(gram, largest)
    elif device != "cpu":
        values, U = eigenvectors(gram.lower(), device)
        values, U = values[-largest:], U[:, -largest:]
    else:
        span = (gram.size - largest, gram.size - 1)
        values, U = eigh(gram.lower(), overwrite_a=True, check_finite=False, subset_by_index=span)
    # A Gram matrix holds squares: what lies below this of an eigenvalue is its rounding.
    _enough(largest, int(np.sum(values > values.max() * gram.size * np.finfo(float).eps)))
    return _spectrum(values, U, lambda x: gram @ x)


def of_data(xi: Floats, largest: int) -> Spectrum:
    """The same by the SVD of the data matrix [T, D]: its time grows with T D^2, not its error.

    Raises:
        TrialFailed: the sentences span fewer units.
    """
    _enough(largest, min(xi.shape))
    _, sigma, Ut = svd(xi, full_matrices=False)
    _enough(largest, int(np.sum(sigma > sigma[0] * max(xi.shape) * np.finfo(float).eps)))
    return _spectrum(sigma[:largest] ** 2, Ut[:largest].T, lambda x: xi.T @ (xi @ x))


def _lanczos_is_faster(size: int, largest: int, device: str = "cpu") -> bool:
    if device != "cpu":
        return size > _ON_GPU
    return size > _SMALL and largest <= size // _SHARE


def _lanczos(gram: Gram, largest: int) -> tuple[Floats, Floats]:
    """ARPACK from a fixed start, so that the same statistics give the same bits."""
    matrix = LinearOperator((gram.size, gram.size), matvec=gram.__matmul__, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(gram.size)
    try:
        values, U = eigsh(matrix, k=largest, v0=start)
    except ArpackNoConvergence as error:
        found = len(error.eigenvalues)
        reason = f"Lanczos found {found} of {largest} units; set solver to exact"
        raise TrialFailed(reason) from error
    return values, U


def _spectrum(values: Floats, U: Floats, multiply: Callable[[Floats], Floats]) -> Spectrum:
    """Sort, fix signs and check what a solver found."""
    order = np.argsort(-values, kind="stable")
    values, U = values[order], U[:, order]
    signs = np.sign(U[np.abs(U).argmax(axis=0), np.arange(U.shape[1])])
    off = np.linalg.norm(multiply(U) - U * values, axis=0).max() / values[0]
    if off > _RESIDUAL:
        _LOGGER.warning("LAES: eigenvectors are only accurate to %.1e; set solver to exact", off)
    return Spectrum(U=U * signs, eigenvalues=values, residual=float(off))


def _enough(asked: int, rank: int) -> None:
    if rank < asked:
        reason = f"units: {asked} are asked for and the sentences span {rank}; "
        raise TrialFailed(reason + f"ask for at most {rank}, or fit on more sentences")
