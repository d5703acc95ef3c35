"""Operations on embeddings, and embeddings back to sentences, as methods of an ``Embedder``.

Legend: N = sentences, D = width of an embedding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sentune.embedder import operations
from sentune.embedder.encode import Embeddings, Encoding, Sentences


class Operating(Encoding):
    """The part of an ``Embedder`` that needs a model with operators; see ``operations``."""

    def fuse(self, a: Sentences, b: Sentences) -> Embeddings:
        """Embeddings of the fusion of paired sentences (InterSent section 2.1).

        Args:
            a, b: sentences or embeddings, N and N; operations compose:
                ``fuse(fuse(a, b), c)``.

        Returns:
            [N, D]; [D] for single ones.

        Raises:
            InvalidValue: the model has no operators.
        """
        return operations.fuse(self, a, b)

    def difference(self, a: Sentences, b: Sentences) -> Embeddings:
        """Embeddings of what ``a`` says and ``b`` does not; see ``fuse``."""
        return operations.difference(self, a, b)

    def compress(self, a: Sentences) -> Embeddings:
        """Embeddings of the compressed sentences; see ``fuse``."""
        return operations.compress(self, a)

    def decode(
        self, embeddings: Sentences, *, beams: int = 1, max_length: int | None = None
    ) -> Any:
        """Sentences from embeddings: one string for [D], a list of N for [N, D].

        Args:
            embeddings: embeddings, or sentences, which are encoded first.
            beams: of the search; 1 is greedy.
            max_length: most tokens; the model's own where None.

        Raises:
            InvalidValue: the model has no decoder.
        """
        return operations.decode(self, embeddings, beams=beams, max_length=max_length)

    def generate(
        self, operation: str, first: Sequence[str], second: Sequence[str] | None = None
    ) -> list[str]:
        """What comes of an operation of ``sentune.corpora.schema.OPERATIONS`` on N sentences."""
        return operations.generate(self, operation, first, second)
