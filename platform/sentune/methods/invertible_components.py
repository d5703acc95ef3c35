"""What is made of a sentence's pooled vectors: the common component removed, two of them averaged.

Section 3.4 of Tang and de Sa removes the top principal component as Arora et al. (2017) do: the
first right singular vector of the matrix of vectors, which is not centred.

Legend: S = sentences, n = width of a word vector, d_z = of a sentence vector, D = one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from sentune.errors import TrialFailed

PARTS = ("z_en", "z_de", "x", "words")
ComponentFrom = Literal["corpus", "task"]
"""Where components come from: sentences of the training corpus, so that one sentence alone can be
embedded, or the very sentences that are embedded, as papers' evaluations do."""


class Postprocessing(nn.Module):
    """Components of the four pooled vectors of a sentence, and what is combined of them.

    They are buffers, so that checkpoints have them; zero until they are fitted.

    Args:
        sentence: d_z, the width of ``z_en`` and ``z_de``.
        word: n, the width of ``x`` and ``words``.
    """

    def __init__(self, *, sentence: int, word: int) -> None:
        super().__init__()
        self.widths = dict(zip(PARTS, (sentence, sentence, word, word), strict=True))
        for part, width in self.widths.items():
            self.register_buffer(f"component_{part}", torch.zeros(width))
            self.register_buffer(f"length_{part}", torch.ones(()))

    @torch.no_grad()
    def fit(self, parts: Mapping[str, Tensor]) -> Postprocessing:
        """Take components and lengths from the pooled vectors of S sentences; gives itself.

        Raises:
            TrialFailed: no sentence has a vector other than zero, or one is not finite.
        """
        for part in PARTS:
            vectors = parts[part]
            self.get_buffer(f"component_{part}").copy_(top_component(vectors))
            left = self._removed(part, vectors)
            left = left[vectors.any(dim=1)]
            self.get_buffer(f"length_{part}").copy_(left.square().sum(1).mean().sqrt())
        return self

    def fitted(self, parts: Mapping[str, Tensor]) -> Postprocessing:
        """Another one, fitted on other sentences."""
        other = Postprocessing(sentence=self.widths["z_en"], word=self.widths["words"])
        return other.to(parts["words"]).fit(parts)

    def forward(self, parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Every representation of S sentences by name.

        ``z_en``, ``z_de`` and ``words`` without their components, and ``x = f_de(z)`` likewise;
        ``ensemble``: the average of z_en and z_de (section 5.2); ``decoded``: the average of words
        and x (section 5.3, Table 4). The averages are of the vectors as they are, as in the paper,
        so that the longer one counts more. ``ensemble_scaled`` and ``decoded_scaled`` first divide
        both by their root mean square lengths over the fitted sentences: nothing changes where the
        lengths are alike (linear: 1.2 and 1.4), much where they are not (coupling: 1.3 and 2.5).
        """
        left = {part: self._removed(part, parts[part]) for part in PARTS}
        even = {part: left[part] / self.get_buffer(f"length_{part}") for part in PARTS}
        return {
            "ensemble": (left["z_en"] + left["z_de"]) / 2,
            "ensemble_scaled": (even["z_en"] + even["z_de"]) / 2,
            "z_en": left["z_en"],
            "z_de": left["z_de"],
            "decoded": (left["words"] + left["x"]) / 2,
            "decoded_scaled": (even["words"] + even["x"]) / 2,
            "x": left["x"],
            "words": left["words"],
        }

    def _removed(self, part: str, vectors: Tensor) -> Tensor:
        component = self.get_buffer(f"component_{part}")
        return vectors - (vectors @ component)[:, None] * component


def top_component(vectors: Tensor) -> Tensor:
    """[S, D] -> [D] first right singular vector, of length 1; the sign is of no consequence.

    Raises:
        TrialFailed: the vectors are all zero, or one is not finite.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh  # half a second that others do without

    matrix = vectors.double().cpu().numpy()
    if not matrix.any() or not np.isfinite(matrix).all():
        raise TrialFailed("no component can be found: the vectors are all zero or not finite")
    size = matrix.shape[1]
    gram = LinearOperator((size, size), matvec=lambda v: matrix.T @ (matrix @ v), dtype=np.float64)
    start = matrix[matrix.any(axis=1)][0]  # a fixed start: the same vectors give the same bits
    _, found = eigsh(gram, k=1, v0=start)
    return torch.from_numpy(found[:, 0]).to(vectors)
