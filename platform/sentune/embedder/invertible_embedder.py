"""Embedding with a model that has an invertible decoder; used like any other model.

Legend: N = sentences, d_z = width of a sentence vector, n = of a word vector.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from json import JSONDecodeError
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from sentune.embedder.embedder import Embedder, device_of
from sentune.errors import InvalidValue
from sentune.geometry.points import Points
from sentune.methods import find
from sentune.methods.invertible import Invertible
from sentune.methods.invertible_components import ComponentFrom
from sentune.methods.invertible_representations import Representations
from sentune.readouts.representation import REPRESENTATION
from sentune.tasks.base import ModelTask, Result, Task
from sentune.tasks.representations import SHIPPED, evaluate_representations
from sentune.training.model import CARD_FILE, READOUTS_FILE, read_settings
from sentune.training.recipes import recipe_of
from sentune.training.settings import TrainingSettings, split


class InvertibleEmbedder(Embedder):
    """A trained model and its representations; embeddings are points.

    Attributes:
        method: the trained method.
        representation: the one that ``embed`` and ``encode`` give: ``ensemble``, ``z_en``, ``z_de``
            or another of ``Postprocessing.forward``. At first it is the readout
            ``representation``, else ``sts/representation``, else the ensemble.
    """

    method: Invertible  # type: ignore[assignment]

    def __init__(
        self,
        method: Invertible,
        *,
        settings: Mapping[str, Any],
        readouts: Mapping[str, Any],
        card: str = "",
        device: str | torch.device | None = None,
    ) -> None:
        self.device = device_of(device)
        self.method = method.to(self.device).eval()
        self.settings, self.readouts, self.card = dict(settings), dict(readouts), card
        self.references = None
        default = TrainingSettings.model_fields["max_length"].default
        self.max_length = int(self.settings.get("max_length") or default)
        name = REPRESENTATION.name
        found = (self.readouts.get(key) for key in (name, f"sts/{name}"))
        self.representation = str(next(filter(None, found), SHIPPED))

    @classmethod
    def load(
        cls, source: str | Path, device: str | torch.device | None = None
    ) -> InvertibleEmbedder:
        """Return the model of a folder.

        Raises:
            InvalidValue: there is no such model; the message says what is missing or damaged.
        """
        folder = Path(source)
        described = read_settings(folder)
        kind = find(described["method"])
        if not issubclass(kind, Invertible):
            raise InvalidValue("model", str(folder), f"it is a model of {kind.title}")
        own, training = split(described["settings"], kind)
        if not (folder / READOUTS_FILE).is_file():
            raise InvalidValue("model", str(folder), f"it is no model, without {READOUTS_FILE}")
        try:
            readouts = json.loads((folder / READOUTS_FILE).read_text(encoding="utf-8"))
            method = recipe_of(kind).read(partial(kind, settings=own), folder)
        except (SafetensorError, JSONDecodeError) as error:
            raise InvalidValue("model", str(folder), f"a file of it is damaged: {error}") from error
        assert isinstance(method, Invertible)
        settings = {**training.model_dump(), **own.model_dump()}
        card = folder / CARD_FILE
        text = card.read_text(encoding="utf-8") if card.is_file() else ""
        return cls(method, settings=settings, readouts=readouts, card=text, device=device)

    @property
    def geometry(self) -> Points:
        """Cosine of points."""
        return Points()

    def represent(
        self,
        sentences: Sequence[str],
        component_from: ComponentFrom = "corpus",
        *,
        batch_size: int = 64,
    ) -> dict[str, Tensor]:
        """Every representation of N sentences by its name, [N, d_z] or [N, n].

        Args:
            component_from: ``corpus`` removes the components that are stored with the model;
                ``task`` those of these very sentences, as papers' evaluations do.
        """
        with torch.no_grad():
            return self._represent(batch_size)(sentences, component_from)

    def features(self, sentences: Sequence[str], *, batch_size: int = 64) -> Tensor:
        """[N, 6 d_z] for a linear classifier: maxima, minima and means of both encoders."""
        return self._represent(batch_size).features(sentences)

    def evaluate(
        self,
        tasks: Sequence[Task | ModelTask],
        readouts: Mapping[str, Any] | None = None,
        *,
        component_from: ComponentFrom = "corpus",
        batch_size: int = 64,
    ) -> Result:
        """All tasks, STS on every representation; see ``evaluate_representations``.

        Args:
            readouts: the model's own to apply them, or None to choose anew.
            component_from: as in ``represent``; ``task`` fits on the sentences of each STS task.
        """

        def represent(sentences: Sequence[str]) -> dict[str, Tensor]:
            return self.represent(sentences, component_from, batch_size=batch_size)

        return evaluate_representations(tasks, represent, features=self.features, readouts=readouts)

    def _represent(self, size: int) -> Representations:
        return Representations(self.method, max_length=self.max_length, size=size)

    def _embed_block(
        self, sentences: Sequence[str], batch_size: int, advance: Callable[[int], None]
    ) -> Tensor:
        found = self.represent(sentences, batch_size=batch_size)
        if self.representation not in found:
            fix = f"choose among {', '.join(found)}"
            raise InvalidValue("representation", self.representation, fix)
        advance(len(sentences))
        return found[self.representation]
