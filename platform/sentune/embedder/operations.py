"""Operations on embeddings, and decoding of embeddings to sentences (InterSent, Table 7).

Operations take sentences or embeddings and return embeddings, so that they can be composed::

    both = embedder.fuse(embedder.fuse("They sang.", "They danced."), "They left.")
    embedder.decode(both)

Legend: N = sentences, D = width of an embedding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch

from sentune.corpora.schema import OPERATIONS, PAIR_OPERATIONS
from sentune.embedder.encode import Embeddings, Encoding, Sentences, as_array, paired, single
from sentune.errors import InvalidValue
from sentune.methods.intersent import Intersent


class Operations(Encoding):
    """Base class of ``Embedder`` with the operations of models with operators and a decoder."""

    def fuse(self, a: Sentences, b: Sentences) -> Embeddings:
        """Return embeddings of sentences with the content of both.

        Args:
            a, b: sentences or embeddings, N and N, or N and one.

        Returns:
            [N, D]; [D] for two single ones.

        Raises:
            InvalidValue: the model's method has no operators, or the numbers of sentences do not
                match.
        """
        return self._pairwise(a, b, self._intersent().operators.fuse)

    def difference(self, a: Sentences, b: Sentences) -> Embeddings:
        """Return embeddings of the content of ``a`` without that of ``b``; see ``fuse``."""
        return self._pairwise(a, b, self._intersent().operators.subtract)

    def compress(self, a: Sentences) -> Embeddings:
        """Return embeddings of summaries of sentences, [N, D] or [D]; see ``fuse``."""
        method = self._intersent()
        with torch.no_grad():
            return as_array(method.operators.compress(self._rows(a)), one=single(a))

    def decode(
        self,
        embeddings: Sentences,
        *,
        beams: int = 1,
        max_length: int | None = None,
        batch_size: int = 64,
    ) -> Any:
        """Return the sentences that the model decodes from embeddings.

        Args:
            embeddings: [N, D], or [D] for a single one; sentences are encoded first.
            beams: number of beams; 1: greedy search.
            max_length: largest number of tokens of a sentence including the start token; None: the
                model's.
            batch_size: sentences per batch.

        Returns:
            N sentences; a string for a single one.

        Raises:
            InvalidValue: the model's method has no decoder, the embeddings do not have its width
                or are not finite, or a number is too small.
        """
        method = self._intersent()
        length = self.max_length if max_length is None else max_length
        for name, value, least in (
            ("beams", beams, 1), ("batch_size", batch_size, 1), ("max_length", length, 2)
        ):  # fmt: skip
            if value < least:
                raise InvalidValue(name, value, f"it must be at least {least}")
        rows, texts = self._rows(embeddings), []
        if len(bad := (~rows.isfinite()).any(dim=1).nonzero()):
            fix = f"{len(bad)} of {len(rows)} are not finite; they cannot be decoded"
            raise InvalidValue("embeddings", f"row {int(bad[0])}", fix)
        for part in torch.split(rows, batch_size):
            ids = method.decode(part, beams, length)
            texts += method.decoder.tokenizer.texts(ids)
        return texts[0] if single(embeddings) else texts

    def generate(
        self, operation: str, first: Sequence[str], second: Sequence[str] | None = None
    ) -> list[str]:
        """Return the decoded results of an operation on N sentences or pairs of sentences.

        Args:
            operation: one of ``sentune.corpora.schema.OPERATIONS``.
            second: second sentences of an operation on pairs.

        Raises:
            InvalidValue: there is no such operation, or ``second`` is missing or superfluous.
        """
        if operation not in OPERATIONS:
            raise InvalidValue("operation", operation, f"choose one of {', '.join(OPERATIONS)}")
        if (operation in PAIR_OPERATIONS) != (second is not None):
            fix = f"{' and '.join(PAIR_OPERATIONS)} take two sentences, the others one"
            raise InvalidValue("operation", operation, fix)
        operand: Sentences = first
        if second is not None:
            operand = (self.fuse if operation == "fusion" else self.difference)(first, second)
        elif operation == "compression":
            operand = self.compress(first)
        found = self.decode(operand)
        return [found] if isinstance(found, str) else found

    @property
    def decodes(self) -> bool:
        """Return whether the model has operators and a decoder."""
        return isinstance(self.method, Intersent)

    def _intersent(self) -> Intersent:
        if not self.decodes:
            fix = "it has neither operators nor a decoder; use a model of intersent"
            raise InvalidValue("method", self.name, fix)
        return cast(Intersent, self.method)

    def _pairwise(self, a: Sentences, b: Sentences, operator: Any) -> Embeddings:
        rows = paired(self._rows(a), self._rows(b))
        with torch.no_grad():
            return as_array(operator(*rows), one=single(a, b))
