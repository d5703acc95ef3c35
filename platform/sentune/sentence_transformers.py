"""A model folder as the one module of a ``SentenceTransformer``.

The folders of methods whose embeddings are no plain pooled vectors (all but SimCSE's, SBERT's
and InterSent's) name this module in ``modules.json``. sentence-transformers imports it with
``trust_remote_code=True`` alone, and refuses the folder without; it never takes the encoder for
the whole.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import InputModule
from torch import Tensor

from sentune.embedder.embedder import Embedder


class EmbedderModule(InputModule):  # type: ignore[misc]
    """Sentences to packed embeddings, [N, D], as ``Embedder.encode`` gives them; inference only."""

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        super().__init__()
        self.embedder, self._folder = embedder, folder
        self.method = embedder.method  # None of a closed form

    @property
    def max_seq_length(self) -> int | None:
        """Most tokens of a sentence."""
        return self.embedder.max_length

    @max_seq_length.setter
    def max_seq_length(self, tokens: int) -> None:
        self.embedder.max_length = tokens

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **others: Any) -> EmbedderModule:
        """Return the module of a folder, or of a model of the hub."""
        known = {n: others[n] for n in ("token", "cache_folder", "revision", "local_files_only")}
        folder = Path(cls.load_dir_path(model_name_or_path, subfolder=subfolder, **known))
        return cls(Embedder.load(folder, "cpu"), folder)

    def on_model_ready(self, model: SentenceTransformer) -> None:
        """Give a model that was loaded by its folder the similarity of this method."""
        if type(model) is SentenceTransformer:
            model.__class__ = EntailmentTransformer

    def preprocess(
        self, inputs: Sequence[Any], prompt: str | None = None, **_: Any
    ) -> dict[str, Any]:
        """Return the texts; they are tokenised by ``Embedder.encode``, which refuses others."""
        return {"texts": [f"{prompt}{text}" if prompt else text for text in inputs]}

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Put ``sentence_embedding`` beside the texts."""
        if self.method is not None:  # where the whole has been moved to
            self.embedder.device = next(self.method.parameters()).device
        found = self.embedder.embed(features["texts"], show_progress=False)
        return {**features, "sentence_embedding": found}

    def get_embedding_dimension(self) -> int:
        """Return D, the numbers of a packed embedding."""
        return int(self.embedder.encode(["a"]).shape[-1])

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Copy the model folder."""
        shutil.copytree(self._folder, output_path, dirs_exist_ok=True)


class EntailmentTransformer(SentenceTransformer):  # type: ignore[misc]
    """A ``SentenceTransformer`` whose ``similarity`` is the model's own.

    For boxes and Gaussians that is no cosine: see ``Embedder.similarity_table``. What
    ``SentenceTransformer(folder, trust_remote_code=True)`` returns is one, too.
    """

    def __init__(self, folder: str, **others: Any) -> None:
        super().__init__(folder, trust_remote_code=True, **others)

    def similarity(self, embeddings1: Tensor, embeddings2: Tensor) -> Tensor:
        """[N, D], [M, D] -> [N, M] similarities."""
        first, second = _arrays(embeddings1, embeddings2)
        return torch.from_numpy(self[0].embedder.similarity_table(first, second))

    def similarity_pairwise(self, embeddings1: Tensor, embeddings2: Tensor) -> Tensor:
        """[N, D], [N, D] -> [N] similarities."""
        first, second = _arrays(embeddings1, embeddings2)
        return torch.from_numpy(np.atleast_1d(self[0].embedder.similarity(first, second)))


def _arrays(*embeddings: Tensor) -> list[np.ndarray]:
    return [np.asarray(torch.as_tensor(each).cpu()) for each in embeddings]
