"""Sentence encoders with an invertible decoder, whose inverse is a second encoder after training.

"Exploiting Invertible Decoders for Unsupervised Sentence Representation Learning" (Tang and de Sa).
The decoder maps a sentence vector to a word vector; its inverse costs as much as the decoder.

Legend: B = pairs of sentences, T = words of the following sentences, K = negative samples,
S = sentences, n = width of a word vector, d_z = width of a sentence vector, D = n or d_z.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from sentune.corpora.schema import Kind
from sentune.encoders.words.gru import BidirectionalGru, carry, pack
from sentune.encoders.words.vectors import FixedVectors
from sentune.errors import TrialFailed
from sentune.geometry.points import Points
from sentune.methods.base import GradientMethod, Settings
from sentune.readouts.grid import REPRESENTATION, Readout

Ids = Sequence[np.ndarray]
PARTS = ("z_en", "z_de", "x", "words")
ComponentFrom = Literal["corpus", "task"]
"""Sentences that the removed components are fitted on: those of the training corpus, which allows
embedding a single sentence, or the sentences to embed, as in the evaluations of papers."""


class InvertibleSettings(Settings):
    """Settings of invertible decoders; defaults follow section 4.5 unless noted."""

    decoder: Literal["linear", "coupling"] = "linear"
    """linear: ``x = W z + b``. coupling: followed by affine coupling layers (section 3.3.2)."""
    hidden_size: int = Field(1024, ge=1)
    """Units of each direction of the GRU; d_z is twice that, 2048 in the paper."""
    negatives: int = Field(5, ge=1)
    """K, negative samples for each word of the following sentence."""
    constraint: bool = True
    """Move the rows of W towards orthonormality after each step; compared in Table 2."""
    beta: float = Field(0.01, gt=0.0, le=0.5)
    """Step size towards orthonormal rows. The optimiser works against it: W W^T differs from I by
    about the size of an optimiser step over beta. After 1,000 steps of a small model (d_z = 12,
    n = 8, constant rate 5e-4) the Frobenius norm of the difference is 0.033 with 0.01, 0.004 with
    0.1 and 1e-4 with 0.45; with 0.01 and a rate that falls to 0 it is 0.003."""
    orthogonal_start: bool = False
    """Start with orthonormal rows of W (columns if d_z < n) instead of PyTorch's initialisation."""
    coupling_layers: int = Field(4, ge=1)
    """Affine coupling layers; with four, every output depends on every input."""
    coupling_width: int = Field(300, ge=1)
    """Hidden units of the networks s and t, which the paper does not state; 300 is its width of a
    word vector, twice that of the halves."""
    coupling_limit: float | None = Field(0.2, gt=0.0)
    """Bound of the log-scale: s becomes ``limit * tanh(s / limit)``; Dinh et al. (2016) use a tanh,
    too. none: s as in section 3.3.2. The inverse divides word vectors by exp(s), and they need not
    be near any decoded x. After 512 to 600 steps on books with GloVe (width 256, rate 1e-3) the
    inverse gave vectors that are not finite without a bound, ten times as long as the encoder's
    with 1 (mean r over five STS sets 51.9), and twice as long with 0.2 (57.9)."""
    component_sentences: int = Field(20_000, ge=1)
    """Maximum sentences of the training corpus that the removed components are fitted on."""


class Coupling(nn.Module):
    """An affine coupling layer (section 3.3.2; Dinh et al. 2016), a bijection on n numbers.

    One half, x1, is unchanged; the other becomes ``x2 * exp(s(x1)) + t(x1)``. The inverse is
    ``(y2 - t(y1)) * exp(-s(y1))`` with y1 = x1. The networks s and t have one hidden ReLU layer.
    Their output layers are initialised to zero, so that an untrained layer is the identity.

    Args:
        width: n.
        hidden: units of the hidden layers.
        flipped: whether the second half is unchanged instead of the first.
        limit: bound of s, which becomes ``limit * tanh(s / limit)``; None: no bound.
    """

    def __init__(
        self, width: int, hidden: int, *, flipped: bool, limit: float | None = None
    ) -> None:
        super().__init__()
        self.limit = limit
        first = width // 2
        self.sizes, self.flipped = (first, width - first), flipped
        kept, changed = self.sizes[::-1] if flipped else self.sizes
        self.scale, self.shift = _network(kept, hidden, changed), _network(kept, hidden, changed)

    def forward(self, x: Tensor) -> Tensor:
        """Return h(x), [..., n] -> [..., n]."""
        kept, changed = self._split(x)
        return self._join(kept, changed * self._s(kept).exp() + self.shift(kept))

    def inverse(self, y: Tensor) -> Tensor:
        """Return h^-1(y), [..., n] -> [..., n]."""
        kept, changed = self._split(y)
        return self._join(kept, (changed - self.shift(kept)) * (-self._s(kept)).exp())

    def _s(self, kept: Tensor) -> Tensor:
        s: Tensor = self.scale(kept)
        return s if self.limit is None else self.limit * (s / self.limit).tanh()

    def _split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first, second = torch.split(x, list(self.sizes), dim=-1)
        return (second, first) if self.flipped else (first, second)

    def _join(self, kept: Tensor, changed: Tensor) -> Tensor:
        return torch.cat((changed, kept) if self.flipped else (kept, changed), dim=-1)


class InvertibleDecoder(nn.Module):
    """The invertible decoder ``x = h(W z + b)``; h is the identity without coupling layers.

    Args:
        sentence: d_z.
        word: n.
        layers: number of coupling layers; they change the halves in turn.
        hidden, limit: see ``Coupling``.
        orthogonal: whether W is initialised with orthonormal rows (columns if d_z < n).
    """

    def __init__(
        self,
        sentence: int,
        word: int,
        *,
        layers: int = 0,
        hidden: int = 0,
        limit: float | None = None,
        orthogonal: bool = False,
    ) -> None:
        super().__init__()
        self.projection = nn.Linear(sentence, word)
        if orthogonal:
            nn.init.orthogonal_(self.projection.weight)
        flips = (bool(layer % 2) for layer in range(layers))
        couplings = (Coupling(word, hidden, flipped=flip, limit=limit) for flip in flips)
        self.couplings = nn.Sequential(*couplings)

    def forward(self, z: Tensor) -> Tensor:
        """Return f_de(z), [..., d_z] -> [..., n]."""
        x: Tensor = self.couplings(self.projection(z))
        return x

    def inverse(self, x: Tensor) -> Tensor:
        """Return ``W^T (h^-1(x) - b)``, the inverse of f_de, [..., n] -> [..., d_z].

        If W is orthonormal, ``forward(inverse(x))`` is x for d_z >= n, and ``inverse(forward(z))``
        is z for d_z <= n.
        """
        return self.raise_to_sentence(self.uncouple(x))

    def uncouple(self, x: Tensor) -> Tensor:
        """Return h^-1(x), [..., n] -> [..., n]."""
        layer: Coupling
        for layer in reversed(self.couplings):  # type: ignore[assignment]
            x = layer.inverse(x)
        return x

    def raise_to_sentence(self, x: Tensor) -> Tensor:
        """Return ``W^T (x - b)``, [..., n] -> [..., d_z]."""
        return (x - self.projection.bias) @ self.projection.weight

    @torch.no_grad()
    def orthonormalise(self, beta: float) -> None:
        """Set ``W := (1 + beta) W - beta (W W^T) W`` (section 3.3.1; Cisse et al. 2017).

        Each singular value s becomes ``s + beta s (1 - s^2)``, which is closer to 1. ``(W W^T) W``
        is equal to ``W (W^T W)``; the cheaper product is computed. If W has fewer columns than
        rows, its columns become orthonormal (footnote 1).
        """
        weight = self.projection.weight
        wide = weight.shape[1] >= weight.shape[0]
        product = (weight @ weight.T) @ weight if wide else weight @ (weight.T @ weight)
        weight.mul_(1 + beta).sub_(product, alpha=beta)

    @torch.no_grad()
    def deviation(self) -> float:
        """Return the Frobenius norm of ``W W^T - I``, or of ``W^T W - I`` if d_z < n."""
        return float(torch.linalg.vector_norm(self.spectrum() - 1))

    @torch.no_grad()
    def spectrum(self) -> Tensor:
        """Return the min(n, d_z) largest eigenvalues of ``W W^T`` (section 4.5), decreasing."""
        values: Tensor = torch.linalg.svdvals(self.projection.weight.double())
        return values.square()


def _network(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    last = nn.Linear(hidden, outputs)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), last)


class Postprocessing(nn.Module):
    """Remove a component from each of the four pooled vectors of a sentence, and combine them.

    The component is the first right singular vector of the matrix of vectors, which is not centred
    (section 3.4; Arora et al. 2017). Components are buffers, so that checkpoints include them; they
    are zero until they are fitted.

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
        """Fit components and lengths to the pooled vectors of S sentences, and return self.

        Args:
            parts: name in ``PARTS`` -> [S, d_z] or [S, n].

        Raises:
            TrialFailed: all vectors are zero, or one is not finite.
        """
        for part in PARTS:
            vectors = parts[part]
            self.get_buffer(f"component_{part}").copy_(top_component(vectors))
            left = self._removed(part, vectors)
            left = left[vectors.any(dim=1)]
            self.get_buffer(f"length_{part}").copy_(left.square().sum(1).mean().sqrt())
        return self

    def forward(self, parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return every representation of S sentences by name, [S, d_z] or [S, n].

        ``z_en``, ``z_de``, ``words`` and ``x = f_de(z)`` are without their components. ``ensemble``
        is the average of z_en and z_de (section 5.2), ``decoded`` that of words and x (section 5.3,
        Table 4). As in the paper, the vectors are not normalised before averaging, so that the
        longer one has more weight. ``ensemble_scaled`` and ``decoded_scaled`` first divide them by
        their root mean square lengths over the fitted sentences. This matters little if the lengths
        are similar (linear: 1.2 and 1.4) and much if they differ (coupling: 1.3 and 2.5).
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
    """Return the first right singular vector, of length 1 and any sign, [S, D] -> [D].

    Raises:
        TrialFailed: all vectors are zero, or one is not finite.
    """
    matrix = vectors.double().cpu().numpy()
    if not matrix.any() or not np.isfinite(matrix).all():
        raise TrialFailed("no component can be fitted: the vectors are all zero or not finite")
    size, linalg = matrix.shape[1], scipy.sparse.linalg
    if size == 1:  # ARPACK needs more
        return torch.ones(1).to(vectors)

    def gram(v: NDArray[np.float64]) -> NDArray[np.float64]:
        return matrix.T @ (matrix @ v)

    operator = linalg.LinearOperator((size, size), matvec=gram, dtype=np.float64)
    start = matrix[matrix.any(axis=1)][0]  # a fixed start makes the result reproducible
    _, found = linalg.eigsh(operator, k=1, v0=start)
    return torch.from_numpy(found[:, 0]).to(vectors)


class Invertible(GradientMethod):
    """A bidirectional GRU that predicts the words of the next sentence by an invertible decoder.

    The word vectors are fixed (section 4) and not part of checkpoints. ``encoder`` is f_en and
    ``decoder`` f_de; ``postprocessing`` is fitted at validation.
    """

    name: ClassVar[str] = "invertible"
    title: ClassVar[str] = "Invertible decoders"
    settings_type: ClassVar[type[Settings]] = InvertibleSettings
    recipe: ClassVar[str] = "invertible"
    kind: ClassVar[Kind] = Kind.ADJACENT_SENTENCES
    on_words: ClassVar[bool] = True
    objective: ClassVar[str] = "sts/pearson"
    readouts: ClassVar[tuple[Readout, ...]] = (REPRESENTATION,)
    training_defaults: ClassVar[Mapping[str, Any]] = {
        "batch_size": 512,
        "learning_rate": 5e-4,
        "schedule": "constant",
        "warmup": 0.0,
        "clip_norm": 1.0,
    }

    def __init__(self, vectors: FixedVectors, settings: InvertibleSettings) -> None:
        super().__init__()
        self.vectors, self.settings = vectors, settings
        width = vectors.width
        self.encoder = BidirectionalGru(width, settings.hidden_size)
        layers = settings.coupling_layers if settings.decoder == "coupling" else 0
        self.decoder = InvertibleDecoder(
            self.encoder.width,
            width,
            layers=layers,
            hidden=settings.coupling_width,
            limit=settings.coupling_limit,
            orthogonal=settings.orthogonal_start,
        )
        self.postprocessing = Postprocessing(sentence=self.encoder.width, word=width)

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        """Return the columns of a sentence and of the sentence that follows it."""
        return "text", "following"

    @property
    def geometry(self) -> Points:
        """Points compared by their cosine."""
        return Points()

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.decoder.projection.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights, in which it computes outside autocast."""
        return self.decoder.projection.weight.dtype

    def words(self, texts: Ids) -> PackedSequence:
        """Return the packed vectors of the words of non-empty sentences.

        Args:
            texts: rows of the word table for each sentence.
        """
        ids = pack(texts, self.device)
        return carry(ids, self.vectors(ids.data, self.dtype))

    def encode(self, texts: Ids) -> Tensor:
        """Return z of section 3.2, the last hidden states of both directions, [B, d_z]."""
        return self.encoder.last(self.words(texts)).to(self.dtype)

    def loss(self, texts: Ids, followings: Ids, negatives: Tensor) -> Tensor:
        """Return the loss of section 3.1 with negative sampling, summed over the pairs.

        The loss of a pair is the mean over the words w of the following sentence of
        ``-log sigmoid(x^T v_w) - sum_k log sigmoid(-x^T v_k)``.

        Args:
            texts, followings: B non-empty sentences each, as rows of the word table.
            negatives: [T, K] rows of the word table, the samples for each following word.
        """
        z = self.encode(texts)
        counts = torch.tensor([len(words) for words in followings], device=z.device)
        ids = torch.from_numpy(np.concatenate(followings).astype(np.int64)).to(z.device)
        with torch.autocast(z.device.type, enabled=False):
            x = self.decoder(z).repeat_interleave(counts, dim=0)
            right = (x * self.vectors(ids, self.dtype)).sum(1)
            wrong = torch.einsum("tn,tkn->tk", x, self.vectors(negatives, self.dtype))
            terms = F.softplus(-right) + F.softplus(wrong).sum(1)
            return (terms / counts.repeat_interleave(counts)).sum()

    def after_step(self) -> None:
        """Move W towards orthonormal rows if ``constraint`` is set."""
        if self.settings.constraint:
            self.decoder.orthonormalise(self.settings.beta)
