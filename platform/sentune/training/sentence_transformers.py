"""The files by which sentence-transformers recognises a folder; its oldest layout, read by all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sentune.encoders import Pooling

_MODULES = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))


def write_modules(folder: Path, width: int, pooling: Pooling, max_length: int) -> None:
    """Encoder, pooling and normalisation, so that dot products there are cosines here."""
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(_MODULES)
    ]
    _write(folder / "modules.json", modules)
    _write(folder / "sentence_bert_config.json", {"max_seq_length": max_length})
    _write(
        folder / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": width,
            "pooling_mode_cls_token": pooling == "cls",
            "pooling_mode_mean_tokens": pooling == "mean",
        },
    )
    (folder / "2_Normalize").mkdir()


def _write(file: Path, content: Any) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
