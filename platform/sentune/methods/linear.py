"""LINEAR, the baseline of GumbelCSE sections 4.2 and 4.4: BERT reading both sentences at once.

It embeds no sentence, so it is no ``SentenceMethod``: one linear layer on the hidden state of
[CLS] in the last layer, over "[CLS] p [SEP] h [SEP]".

Legend: N = pairs, L = tokens, H = width of the encoder, C = classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AutoTokenizer

from sentune.encoders import TextEncoder, length_sorted_chunks
from sentune.errors import InvalidValue

Tokens = list[np.ndarray]


class EncodedPairs(NamedTuple):
    """Token ids and token types (0 for the premise, 1 for the hypothesis) of N pairs."""

    ids: Tokens
    types: Tokens

    def take(self, places: NDArray[np.int64]) -> EncodedPairs:
        """Some of the pairs, in the order of ``places``."""
        return EncodedPairs([self.ids[i] for i in places], [self.types[i] for i in places])


class PairChunk(NamedTuple):
    """Pairs that go through the encoder together: [N, L] each, padded on the right."""

    input_ids: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor

    def to(self, device: torch.device) -> PairChunk:
        """Return the same chunk on another device."""
        return PairChunk(*(part.to(device) for part in self))


class PairTokenizer:
    """The tokenizer of an encoder folder, for pairs.

    Raises:
        InvalidValue: it has no padding token.
    """

    def __init__(self, path: str) -> None:
        self._tokenizer: Any = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        if self._tokenizer.pad_token_id is None:
            fix = "name an encoder whose tokenizer has a padding token"
            raise InvalidValue("--encoder", path, fix)

    def encode(self, pairs: Sequence[tuple[str, str]], max_length: int) -> EncodedPairs:
        """Tokens of "[CLS] p [SEP] h [SEP]" for each pair (p, h), the longer side cut first."""
        if not pairs:
            return EncodedPairs([], [])
        encoded = self._tokenizer(
            [premise for premise, _ in pairs],
            [hypothesis for _, hypothesis in pairs],
            truncation="longest_first",
            max_length=max_length,
            return_attention_mask=False,
            return_token_type_ids=True,
        )
        ids, types = (
            [np.asarray(row, dtype=np.int32) for row in encoded[name]]
            for name in ("input_ids", "token_type_ids")
        )
        return EncodedPairs(ids, types)

    def chunks(self, pairs: EncodedPairs, size: int) -> tuple[list[PairChunk], Tensor]:
        """Chunks of at most ``size`` pairs of like length, the longest first, and the way back.

        ``torch.cat(outputs)[restore]`` is in the order of the pairs.
        """
        ids, restore = length_sorted_chunks(pairs.ids, size, self._tokenizer.pad_token_id)
        types, _ = length_sorted_chunks(pairs.types, size, 0)  # as long, so in the same order
        both = zip(ids, types, strict=True)
        return [PairChunk(*chunk, other.input_ids) for chunk, other in both], restore


class PairClassifier(nn.Module):
    """Logits of C classes for pairs of sentences.

    Args:
        encoder: pre-trained; its dropout is kept as it is.
        classes: C. The layer is drawn from torch's global generator.
    """

    def __init__(self, encoder: TextEncoder, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.layer = nn.Linear(encoder.width, classes)

    def renew(self, classes: int) -> None:
        """A new layer of so many classes on the encoder as it is trained by now."""
        device = self.layer.weight.device
        self.layer = nn.Linear(self.encoder.width, classes).to(device)

    def forward(self, chunk: PairChunk) -> Tensor:
        """[N, L] three times -> [N, C]."""
        inputs: dict[str, Tensor] = chunk._asdict()
        # RoBERTa knows one type and DistilBERT none: there the separators alone tell p from h
        if getattr(self.encoder.model.config, "type_vocab_size", 0) < 2:
            del inputs["token_type_ids"]
        states = self.encoder.model(**inputs).last_hidden_state
        logits: Tensor = self.layer(states[:, 0].to(self.encoder.dtype))
        return logits
