"""A model for MTEB's tasks (``mteb.evaluate``). Needs the extra ``mteb``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from mteb.models import ModelMeta
from torch import Tensor

from sentune.embedder.embedder import Embedder
from sentune.embedder.encode import Embeddings


class MtebEncoder:
    """An ``Embedder`` as mteb's ``EncoderProtocol`` has it; its similarity is the model's own.

    mteb's scores by cosine, Euclidean and Manhattan distance compare the packed numbers of a box or
    a Gaussian, which mean little: read those without such a name.

    Args:
        model_name, device: as of ``Embedder.load``.
        revision: mteb keeps results by name and revision.
    """

    def __init__(
        self,
        model_name: str | Path,
        revision: str | None = None,
        *,
        device: str | None = None,
        **_: Any,
    ) -> None:
        self.embedder = Embedder.load(model_name, device)
        method = self.embedder.method
        self.mteb_model_meta: ModelMeta = ModelMeta.create_empty(
            {
                "name": f"sentune/{self.embedder.name}",
                "revision": revision,
                "n_parameters": method and sum(p.numel() for p in method.parameters()),
                "max_tokens": self.embedder.max_length,
                "framework": ["PyTorch"],
            }
        )

    def encode(self, inputs: Any, *, batch_size: int = 64, **_: Any) -> Embeddings:
        """Return [N, D] packed embeddings of the N texts of a loader; prompts are not used."""
        texts = [text for batch in inputs for text in batch["text"]]
        return self.embedder.encode(texts, batch_size=batch_size, show_progress=False)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """[N, D], [M, D] -> [N, M] similarities."""
        return torch.from_numpy(
            self.embedder.similarity_table(_rows(embeddings1), _rows(embeddings2))
        )

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """[N, D], [N, D] -> [N] similarities."""
        found = self.embedder.similarity(_rows(embeddings1), _rows(embeddings2))
        return torch.from_numpy(np.atleast_1d(found))


def _rows(embeddings: Any) -> Embeddings:
    return np.atleast_2d(torch.as_tensor(embeddings).cpu().numpy())
