"""A model as MLflow ``python_function``, for ``mlflow.pyfunc.load_model`` and MLflow's server."""

from __future__ import annotations

from typing import Any

import pandas as pd

from sentune.embedder.embedder import Embedder
from sentune.errors import InvalidValue

OUTPUTS = ("embeddings", "entails", "similarity", "direction")


class EmbedderFunction:
    """MLflow model of tables with the column ``sentence`` and, for pairs, ``other``."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Return one prediction for each row of the table.

        Args:
            model_input: a data frame, or data that ``pandas.DataFrame`` accepts.
            params: ``output``: ``embeddings`` (packed, [N, D]; the default), ``entails`` (score of
                ``sentence`` entailing ``other``), ``similarity``, or ``direction`` (``first``,
                ``second`` or ``neither`` entails the other).

        Raises:
            InvalidValue: the output is unknown, or the column ``other`` is missing or has gaps.
        """
        table = pd.DataFrame(model_input)
        output = (params or {}).get("output", OUTPUTS[0])
        if output not in OUTPUTS:
            raise InvalidValue("output", output, f"choose one of {', '.join(OUTPUTS)}")
        sentences: Any = table["sentence"].tolist()
        if output == "embeddings":
            return self.embedder.encode(sentences)
        if "other" not in table or table["other"].isna().any():
            raise InvalidValue("other", "", f"give a second sentence in each row for {output}")
        others: Any = table["other"].tolist()
        if output == "similarity":
            return self.embedder.similarity(sentences, others)
        if output == "entails":
            return [one.score for one in self.embedder.entails(sentences, others)]
        return [one.entailing for one in self.embedder.direction(sentences, others)]


def _load_pyfunc(path: str) -> EmbedderFunction:
    """Return the model of a folder; the name is MLflow's."""
    return EmbedderFunction(Embedder.load(path))
