"""A model for ``mteb.evaluate``. Needs the extra ``mteb``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from mteb.models import ModelMeta
from torch import Tensor

from sentune.embedder.embedder import Embedder
from sentune.embedder.encode import Embeddings
from sentune.embedder.load import folder_of
from sentune.embedder.pretrained import PREFIXES
from sentune.io.folders import read_manifest
from sentune.training.model import MANIFEST


class MtebEncoder:
    """An ``Embedder`` with the interface of mteb's ``EncoderProtocol``.

    Similarity is the model's own. Ignore mteb's scores by cosine, Euclidean and Manhattan distance
    for boxes and Gaussians, because they compare packed parameters.

    Args:
        model_name, device: as in ``Embedder.load``.
        revision: mteb stores results by name and revision; default: the start of the checksum of
            the model folder, None for other models.
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
        own = revision is None and not str(model_name).startswith(PREFIXES)
        if own and (manifest := folder_of(model_name) / MANIFEST).is_file():
            revision = read_manifest(manifest)[0].get("checksum", "")[:12] or None
        known = {
            "name": f"sentune/{self.embedder.name}",
            "revision": revision,
            "n_parameters": None if method is None else sum(p.numel() for p in method.parameters()),
            "max_tokens": self.embedder.max_length,
            "framework": ["PyTorch"],
        }
        self.mteb_model_meta: ModelMeta = ModelMeta.create_empty(known)

    def encode(self, inputs: Any, *, batch_size: int = 64, **_: Any) -> Embeddings:
        """Return packed embeddings, [N, D], of the N texts of a loader; prompts are ignored."""
        texts = [text for batch in inputs for text in batch["text"]]
        return self.embedder.encode(texts, batch_size=batch_size, show_progress=False)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Return the similarities of all pairs of [N, D] and [M, D] embeddings, [N, M]."""
        sides = map(torch.as_tensor, (embeddings1, embeddings2))
        return torch.from_numpy(self.embedder.similarity_table(*sides))

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Tensor:
        """Return the similarities of N pairs of [N, D] embeddings, [N]."""
        found = self.embedder.similarity(*map(torch.as_tensor, (embeddings1, embeddings2)))
        return torch.from_numpy(np.atleast_1d(np.asarray(found, dtype=np.float32)))
