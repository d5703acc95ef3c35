"""Loads a model folder as a ``SentenceTransformer`` with a single module.

Folders of models whose embeddings are not pooled vectors (all but SimCSE, SBERT and InterSent) name
this module in ``modules.json``. sentence-transformers imports it only with
``trust_remote_code=True``, and otherwise refuses the folder instead of loading only the encoder.
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
    """Encodes sentences as packed embeddings, [N, D], like ``Embedder.encode``; inference only.

    Args:
        embedder: the model.
        folder: that it was loaded from, which ``save`` copies.
    """

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        super().__init__()
        self.embedder, self._folder = embedder, folder
        self.method = embedder.method  # None for methods in closed form

    @property
    def max_seq_length(self) -> int | None:
        """Largest number of tokens of a sentence."""
        return self.embedder.max_length

    @max_seq_length.setter
    def max_seq_length(self, tokens: int) -> None:
        self.embedder.max_length = tokens

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **others: Any) -> EmbedderModule:
        """Load the module from a folder or from the Hub."""
        known = {n: others[n] for n in ("token", "cache_folder", "revision", "local_files_only")}
        folder = Path(cls.load_dir_path(model_name_or_path, subfolder=subfolder, **known))
        return cls(Embedder.load(folder, "cpu"), folder)

    def on_model_ready(self, model: SentenceTransformer) -> None:
        """Give a ``SentenceTransformer`` with this module the similarity of the method."""
        if type(model) is SentenceTransformer:
            model.__class__ = EntailmentTransformer

    def preprocess(
        self, inputs: Sequence[Any], prompt: str | None = None, **_: Any
    ) -> dict[str, Any]:
        """Return the texts with their prompt; ``Embedder.encode`` checks and tokenises them."""
        return {"texts": [f"{prompt}{text}" if prompt else text for text in inputs]}

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add ``sentence_embedding`` to the features."""
        if self.method is not None:  # the model may have been moved to another device
            self.embedder.device = next(self.method.parameters()).device
        found = self.embedder.embed(features["texts"], show_progress=False)
        return {**features, "sentence_embedding": found}

    def get_embedding_dimension(self) -> int:
        """Return D, the length of a packed embedding."""
        return int(self.embedder.encode(["a"]).shape[-1])

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Copy the model folder."""
        shutil.copytree(self._folder, output_path, dirs_exist_ok=True)


class EntailmentTransformer(SentenceTransformer):  # type: ignore[misc]
    """A ``SentenceTransformer`` whose ``similarity`` is that of the model.

    For boxes and Gaussians it is not the cosine; see ``Embedder.similarity_table``.
    ``SentenceTransformer(folder, trust_remote_code=True)`` returns an instance of this class, too.
    """

    def __init__(self, folder: str, **others: Any) -> None:
        super().__init__(folder, trust_remote_code=True, **others)

    def similarity(self, embeddings1: Tensor, embeddings2: Tensor) -> Tensor:
        """Return the similarities of all pairs of [N, D] and [M, D] embeddings, [N, M]."""
        first, second = map(torch.as_tensor, (embeddings1, embeddings2))
        return torch.from_numpy(self[0].embedder.similarity_table(first, second))

    def similarity_pairwise(self, embeddings1: Tensor, embeddings2: Tensor) -> Tensor:
        """Return the similarities of N pairs of [N, D] embeddings, [N]."""
        first, second = map(torch.as_tensor, (embeddings1, embeddings2))
        return torch.from_numpy(np.atleast_1d(self[0].embedder.similarity(first, second)))
