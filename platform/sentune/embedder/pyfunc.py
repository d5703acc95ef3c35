"""A model as MLflow's ``python_function``: what ``mlflow.pyfunc.load_model`` and a server call."""

from __future__ import annotations

from typing import Any

import pandas as pd

from sentune.embedder.embedder import Embedder
from sentune.errors import InvalidValue

OUTPUTS = ("embeddings", "entails", "similarity", "direction")


class EmbedderFunction:
    """Predicts on a table with the column ``sentence``, and for pairs ``other``."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Return one row for each row of the table.

        Args:
            model_input: a table, or whatever becomes one.
            params: ``output``: ``embeddings`` ([N, D] packed numbers), ``entails`` (score that
                ``sentence`` entails ``other``), ``similarity``, or ``direction`` (``first`` or
                ``second`` is the one that entails).

        Raises:
            InvalidValue: another output, or pairs without the column ``other``.
        """
        table = pd.DataFrame(model_input)
        output = (params or {}).get("output", OUTPUTS[0])
        if output not in OUTPUTS:
            raise InvalidValue("output", output, f"choose one of {', '.join(OUTPUTS)}")
        sentences: Any = table["sentence"].tolist()
        if output == "embeddings":
            return self.embedder.encode(sentences)
        if "other" not in table or table["other"].isna().any():
            raise InvalidValue("other", None, f"give a second sentence in each row for {output}")
        others: Any = table["other"].tolist()
        if output == "similarity":
            return self.embedder.similarity(sentences, others)
        if output == "entails":
            return [one.score for one in self.embedder.entails(sentences, others)]
        return [one.entailing for one in self.embedder.direction(sentences, others)]


def _load_pyfunc(path: str) -> EmbedderFunction:
    """Return the model of a folder; MLflow asks for this name."""
    return EmbedderFunction(Embedder.load(path))
