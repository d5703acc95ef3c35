"""How far rounding may set two ways to compute a number apart."""

from __future__ import annotations

import torch


def rounding(terms: int, size: float = 1.0, dtype: torch.dtype = torch.float64) -> float:
    """Bound on the difference between two evaluations of a sum of ``terms`` products.

    Each of them errs by at most n u / (1 - n u) of the terms' sizes with u = eps / 2 (Higham,
    "Accuracy and Stability of Numerical Algorithms", section 3.1); four times that is for
    exponentials and logarithms among the terms, which err by some units themselves.

    Args:
        terms: n, the operations that one number goes through.
        size: sum of the absolute values of the terms, before they cancel each other, times what
            the operations after the sum magnify its error by.
        dtype: that is computed in.
    """
    return 4 * terms * torch.finfo(dtype).eps * float(size)


def difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference, in units of the largest of the expected numbers, at least of 1."""
    return float((found - expected).abs().max() / expected.abs().max().clamp(min=1))
