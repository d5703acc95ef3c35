"""InterSent: operations on sentences become operations on their embeddings.

Huang, Yao, Song, Zhang, Chen, Yu: Bridging Continuous and Discrete Spaces: Interpretable Sentence
Representation Learning via Compositional Operations, 2023.

Legend: N = items, M = those of them whose operation takes two sentences, L = tokens, D = width of
an embedding, B = items of the global batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, ValidationInfo, field_validator
from torch import Tensor, nn

from sentune.corpora.schema import OPERATIONS, PAIR_OPERATIONS, Kind
from sentune.encoders import TextEncoder
from sentune.encoders.decoders import Decoder
from sentune.geometry.contrastive import TermWeights, contrastive_loss
from sentune.geometry.points import Points
from sentune.methods.base import Gather, GradientMethod, MethodSettings

FUSION, DIFFERENCE, COMPRESSION, RECONSTRUCTION = range(len(OPERATIONS))
PAIR_CODES = tuple(OPERATIONS.index(name) for name in PAIR_OPERATIONS)
OperatorKind = Literal["mlp", "arithmetic"]


class IntersentSettings(MethodSettings):
    """Defaults of section 3.2 and appendix B; the paper does not state its temperature."""

    alpha: float = Field(0.01, ge=0.0)
    """Weight of the generative loss in Eq. 3; 0: contrastive alone, and nothing is decoded."""
    contrastive_weight: float = Field(1.0, ge=0.0)
    """Weight of the contrastive loss, 1 in Eq. 3; 0: generative alone (Table 5)."""
    generative_average: Literal["sequence", "token"] = "sequence"
    """Eq. 2 averages over the tokens of each sequence; token: over all tokens of the batch."""
    operators: OperatorKind = "mlp"
    """Fusion and difference: mlp, or the arithmetic of Table 6, e1 + e2 and e1 - e2."""
    operator_width: int | None = Field(None, ge=1)
    """Hidden units of fusion and difference; none: as many as the concatenated pair has."""
    bottleneck_width: int = Field(384, ge=1)
    """Hidden units of compression."""
    decoder_learning_rate: float = Field(1e-4, gt=0.0)
    """Highest learning rate of decoder and operators; ``learning_rate`` is the encoder's."""
    train_encoder: bool = True
    """no: operators and decoder on a frozen encoder, as the baselines of Table 1."""

    @field_validator("contrastive_weight")
    @classmethod
    def _something_is_learned(cls, value: float, info: ValidationInfo) -> float:
        if not value and not info.data.get("alpha"):
            raise ValueError("it cannot be 0 where alpha is 0")
        return value


class Operators(nn.Module):
    """Embeddings of what fusion, difference and compression make (section 2.2, appendix B).

    Reconstruction has no operator: its embedding is the sentence's own.

    Args:
        width: D.
        kind: ``mlp``, or the ``arithmetic`` of Table 6: e1 + e2 for fusion and e1 - e2 for
            difference; compression stays an MLP.
        pair_width: hidden units of fusion and difference.
        bottleneck_width: hidden units of compression, few so that the essential alone gets through.
    """

    def __init__(
        self, width: int, kind: OperatorKind, pair_width: int, bottleneck_width: int
    ) -> None:
        super().__init__()
        self.learned = kind == "mlp"
        if self.learned:
            self.fusion = _mlp(2 * width, pair_width, width)
            self.difference = _mlp(2 * width, pair_width, width)
        self.compression = _mlp(width, bottleneck_width, width)

    def fuse(self, first: Tensor, second: Tensor) -> Tensor:
        """[N, D], [N, D] -> [N, D]: a sentence that tells what both tell."""
        if not self.learned:
            return first + second
        fused: Tensor = self.fusion(torch.cat([first, second], dim=1))
        return fused

    def subtract(self, first: Tensor, second: Tensor) -> Tensor:
        """[N, D], [N, D] -> [N, D]: what the first tells and the second does not."""
        if not self.learned:
            return first - second
        left: Tensor = self.difference(torch.cat([first, second], dim=1))
        return left

    def compress(self, first: Tensor) -> Tensor:
        """[N, D] -> [N, D]: the essential of a sentence."""
        compressed: Tensor = self.compression(first)
        return compressed


def _mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


class Intersent(GradientMethod):
    """Encoder, operators and a decoder that sees nothing but the resulting embedding, through a
    linear bridge where its width is another."""

    name: ClassVar[str] = "intersent"
    title: ClassVar[str] = "InterSent"
    settings_type: ClassVar[type[IntersentSettings]] = IntersentSettings
    recipe: ClassVar[str] = "intersent"
    kind: ClassVar[Kind] = Kind.OPERATIONS
    objective: ClassVar[str] = "generation/rouge1"
    training_defaults: ClassVar[Mapping[str, Any]] = {
        "learning_rate": 5e-6,
        "warmup": 0.05,
        "batch_size": 256,
        "max_length": 64,
        "schedule": "linear",
    }

    def __init__(self, encoder: TextEncoder, decoder: Decoder, settings: IntersentSettings) -> None:
        super().__init__()
        self.encoder, self.decoder, self.settings = encoder, decoder, settings
        width = encoder.width
        self.operators = Operators(
            width,
            settings.operators,
            settings.operator_width or 2 * width,
            settings.bottleneck_width,
        )
        same = width == decoder.width
        self.bridge: nn.Module = nn.Identity() if same else nn.Linear(width, decoder.width)
        self.encoder.requires_grad_(settings.train_encoder)
        self.train()

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        """Code of the operation, its sentences, the target, and the target as the decoder's ids."""
        return ("operation", "first", "second", "target", "decoded")

    @property
    def geometry(self) -> Points:
        """Cosine."""
        return Points()

    def rated_parameters(self, learning_rate: float) -> list[tuple[list[nn.Parameter], float]]:
        """Return the encoder at the training's rate, the rest at ``decoder_learning_rate``."""
        own = [p for p in self.encoder.parameters() if p.requires_grad]
        rest = [p for k, p in self.named_parameters() if not k.startswith("encoder.")]
        groups = [(own, learning_rate), (rest, self.settings.decoder_learning_rate)]
        return [group for group in groups if group[0]]

    def train(self, mode: bool = True) -> Intersent:
        """As usual, but a frozen encoder drops nothing out."""
        super().train(mode)
        self.encoder.train(mode and self.settings.train_encoder)
        return self

    def embed(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """[N, L], [N, L] -> [N, D]."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.settings.train_encoder):
            embeddings: Tensor = self.encoder(input_ids, attention_mask, self.settings.pooling)
            return embeddings

    def operate(self, codes: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """Embeddings of what the operations make.

        Args:
            codes: [N] places of the operations in ``OPERATIONS``.
            first: [N, D].
            second: [M, D] of the items with two sentences, in their order.
        """
        # rows of `second` lie where the mask of pairs is true, counted from its start
        place = torch.isin(codes, codes.new_tensor(PAIR_CODES)).cumsum(0) - 1
        results, places = [], []
        for code in range(len(OPERATIONS)):
            rows = (codes == code).nonzero().flatten()
            if len(rows):
                others = second[place[rows]] if code in PAIR_CODES else None
                results.append(self._result(code, first[rows], others))
                places.append(rows)
        if not results:
            return first
        return torch.cat(results)[torch.cat(places).argsort()]

    def _result(self, code: int, first: Tensor, second: Tensor | None) -> Tensor:
        if second is not None:
            operator = self.operators.fuse if code == FUSION else self.operators.subtract
            return operator(first, second)
        return self.operators.compress(first) if code == COMPRESSION else first

    def contrastive(self, outputs: Tensor, targets: Tensor, gather: Gather, offset: int) -> Tensor:
        """Eq. 1 with the targets of the whole batch as candidates, summed over the local items.

        Args:
            outputs, targets: [N, D], row i of each belonging together.
            gather: local rows -> rows of all workers, with gradients.
            offset: place of the first local item among the gathered ones.
        """
        return contrastive_loss(
            outputs,
            targets,
            None,
            geometry=self.geometry,
            weights=TermWeights(),
            temperature=self.settings.temperature,
            gather=gather,
            offset=offset,
        )

    def token_weights(self, lengths: Tensor) -> Tensor:
        """What each item's tokens count in the mean of Eq. 2 over the global batch.

        Args:
            lengths: [B] tokens that are predicted.

        Returns:
            [B]: 1 / (B |T_i|), or 1 / (sum of all |T_j|) where tokens are averaged.
        """
        whole = lengths.clamp(min=1).double()
        if self.settings.generative_average == "token":
            return (1 / whole.sum()).expand(len(whole))
        return 1 / (whole * len(whole))

    def generative(self, outputs: Tensor, decoded: Tensor, mask: Tensor, weights: Tensor) -> Tensor:
        """Eq. 2: negative log-likelihoods of the targets' tokens, weighted and summed.

        Args:
            outputs: [N, D].
            decoded, mask: [N, L] targets as the decoder's ids.
            weights: [N] of each item's tokens.
        """
        losses = self.decoder.loss_per_token(self.bridge(outputs), decoded, mask)
        return (losses.sum(1) * weights.to(losses.dtype)).sum()

    def decode(
        self, embeddings: Tensor, beams: int = 1, max_length: int | None = None
    ) -> list[list[int]]:
        """[N, D] -> N lists of the decoder's ids; see ``Decoder.generate``."""
        with torch.no_grad():
            return self.decoder.generate(self.bridge(embeddings), beams, max_length)
