"""InterSent: operations on sentences, carried out on their embeddings.

Huang, Yao, Song, Zhang, Chen, Yu: Bridging Continuous and Discrete Spaces: Interpretable Sentence
Representation Learning via Compositional Operations, 2023.

Legend: N = items, M = items whose operation takes two sentences, L = tokens, D = width of an
embedding, B = items of the global batch.
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
    """Settings of InterSent, with the defaults of section 3.2 and appendix B.

    The paper does not state its temperature.
    """

    alpha: float = Field(0.01, ge=0.0)
    """Weight of the generative loss in Eq. 3; 0: contrastive loss only, without decoding."""
    contrastive_weight: float = Field(1.0, ge=0.0)
    """Weight of the contrastive loss, 1 in Eq. 3; 0: generative loss only (Table 5)."""
    generative_average: Literal["sequence", "token"] = "sequence"
    """sequence: average over the tokens of each target (Eq. 2). token: over all of the batch."""
    operators: OperatorKind = "mlp"
    """Fusion and difference. mlp: learned. arithmetic: e1 + e2 and e1 - e2 (Table 6)."""
    operator_width: int | None = Field(None, ge=1)
    """Hidden units of fusion and difference; none: the width of the concatenated pair."""
    bottleneck_width: int = Field(384, ge=1)
    """Hidden units of compression."""
    decoder_learning_rate: float = Field(1e-4, gt=0.0)
    """Highest learning rate of decoder and operators; ``learning_rate`` is the encoder's."""
    train_encoder: bool = True
    """no: train operators and decoder on a frozen encoder, as the baselines of Table 1."""

    @field_validator("contrastive_weight")
    @classmethod
    def _something_is_learned(cls, value: float, info: ValidationInfo) -> float:
        if not value and not info.data.get("alpha"):
            raise ValueError("contrastive_weight or alpha must be above 0")
        return value


class Operators(nn.Module):
    """The operators fusion, difference and compression on embeddings (section 2.2, appendix B).

    Reconstruction has no operator: it uses the embedding of the sentence.

    Args:
        width: D.
        kind: ``mlp``, or ``arithmetic`` for e1 + e2 and e1 - e2 as fusion and difference (Table 6);
            compression is always an MLP.
        pair_width: hidden units of fusion and difference.
        bottleneck_width: hidden units of compression.
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
        """Return the embedding of a sentence with the content of both, [N, D], [N, D] -> [N, D]."""
        if not self.learned:
            return first + second
        fused: Tensor = self.fusion(torch.cat([first, second], dim=1))
        return fused

    def subtract(self, first: Tensor, second: Tensor) -> Tensor:
        """Return the embedding of what only the first sentence says, [N, D], [N, D] -> [N, D]."""
        if not self.learned:
            return first - second
        difference: Tensor = self.difference(torch.cat([first, second], dim=1))
        return difference

    def compress(self, first: Tensor) -> Tensor:
        """Return the embedding of a summary of the sentence, [N, D] -> [N, D]."""
        compressed: Tensor = self.compression(first)
        return compressed


def _mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


class Intersent(GradientMethod):
    """An encoder, operators on its embeddings, and a decoder of the results.

    The decoder is conditioned on the resulting embedding only. If its width differs from the
    encoder's, a linear bridge maps the embedding to it.
    """

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
        pair_width = settings.operator_width or 2 * width
        bottleneck = settings.bottleneck_width
        self.operators = Operators(width, settings.operators, pair_width, bottleneck)
        same = width == decoder.width
        self.bridge: nn.Module = nn.Identity() if same else nn.Linear(width, decoder.width)
        self.encoder.requires_grad_(settings.train_encoder)
        self.train()

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        """Return the columns: operation code, its sentences, target, and target in decoder ids."""
        return ("operation", "first", "second", "target", "decoded")

    @property
    def geometry(self) -> Points:
        """Points compared by their cosine."""
        return Points()

    def rated_parameters(self, learning_rate: float) -> list[tuple[list[nn.Parameter], float]]:
        """Return the encoder at ``learning_rate`` and the rest at ``decoder_learning_rate``."""
        own = [p for p in self.encoder.parameters() if p.requires_grad]
        rest = [p for k, p in self.named_parameters() if not k.startswith("encoder.")]
        groups = [(own, learning_rate), (rest, self.settings.decoder_learning_rate)]
        return [group for group in groups if group[0]]

    def train(self, mode: bool = True) -> Intersent:
        """Set the training mode; a frozen encoder stays in evaluation mode, without dropout."""
        super().train(mode)
        self.encoder.train(mode and self.settings.train_encoder)
        return self

    def embed(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return embeddings of token ids and mask, [N, L] each -> [N, D]."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.settings.train_encoder):
            embeddings: Tensor = self.encoder(input_ids, attention_mask, self.settings.pooling)
            return embeddings

    def operate(self, codes: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """Return the embeddings of the results of operations, [N, D].

        Args:
            codes: [N] indices of the operations in ``OPERATIONS``.
            first: [N, D] embeddings of the first sentences.
            second: [M, D] embeddings of the second sentences of the items that have one, in order.
        """
        # the row of `second` of each item that has one
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
        """Return Eq. 1 with the targets of the global batch, summed over the local items.

        Args:
            outputs, targets: [N, D]; row i of each belongs to one item.
            gather: function from local rows to the rows of all workers, with gradients.
            offset: index of the first local item among the gathered items.
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
        """Return the weight of each item's tokens in the mean of Eq. 2 over the global batch, [B].

        The weight is 1 / (B |T_i|), or 1 / (sum of all |T_j|) if ``generative_average`` is token.

        Args:
            lengths: [B] number of predicted tokens, |T_i|.
        """
        whole = lengths.clamp(min=1).double()
        if self.settings.generative_average == "token":
            return (1 / whole.sum()).expand(len(whole))
        return 1 / (whole * len(whole))

    def generative(self, outputs: Tensor, decoded: Tensor, mask: Tensor, weights: Tensor) -> Tensor:
        """Return Eq. 2, the weighted sum of the negative log-likelihoods of the targets' tokens.

        Args:
            outputs: [N, D] embeddings to decode.
            decoded, mask: [N, L] targets in decoder ids, and their mask.
            weights: [N] weight of each item's tokens, from ``token_weights``.
        """
        losses = self.decoder.loss_per_token(self.bridge(outputs), decoded, mask)
        return (losses.sum(1) * weights.to(losses.dtype)).sum()

    def decode(
        self, embeddings: Tensor, beams: int = 1, max_length: int | None = None
    ) -> list[list[int]]:
        """Decode [N, D] embeddings to N lists of decoder ids; see ``Decoder.generate``."""
        with torch.no_grad():
            return self.decoder.generate(self.bridge(embeddings), beams, max_length)
