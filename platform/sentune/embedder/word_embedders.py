"""Embedders on word vectors, used like any other model; their embeddings are points.

Legend: N = sentences, d_z = width of a sentence vector, n = of a word vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from sentune.embedder.embedder import Embedder, device_of
from sentune.errors import InvalidValue
from sentune.geometry.points import Points
from sentune.methods.invertible import Invertible
from sentune.methods.invertible_components import ComponentFrom
from sentune.methods.invertible_representations import Representations
from sentune.readouts.representation import REPRESENTATION
from sentune.tasks.base import ModelTask, Result, Task
from sentune.tasks.representations import SHIPPED, evaluate_representations
from sentune.training.closed_form_model import LoadedClosedForm
from sentune.training.model import LoadedModel
from sentune.training.settings import TrainingSettings


class _PointEmbedder(Embedder):
    """An embedder whose embeddings are points and that has no reference sentences."""

    def __init__(
        self, loaded: LoadedClosedForm | LoadedModel, card: str, device: torch.device
    ) -> None:
        self.settings, self.readouts, self.card = loaded.settings, loaded.readouts, card
        self.device, self.references = device, None

    @property
    def geometry(self) -> Points:
        return Points()


class WordEmbedder(_PointEmbedder):
    """A fitted method (``fitted``) at one value of its readout: components removed, units."""

    def __init__(self, loaded: LoadedClosedForm, card: str) -> None:
        super().__init__(loaded, card, torch.device("cpu"))
        self.fitted, self.value = loaded.method, loaded.value

    @property
    def name(self) -> str:
        return self.fitted.name

    def _embed_block(
        self, sentences: Sequence[str], batch_size: int, advance: Callable[[int], None]
    ) -> Tensor:
        found = torch.from_numpy(self.fitted.embed(sentences, self.value))
        advance(len(sentences))
        return found


class InvertibleEmbedder(_PointEmbedder):
    """A trained model with an invertible decoder, and its representations.

    Attributes:
        representation: the one that ``embed`` and ``encode`` give: ``ensemble``, ``z_en``, ``z_de``
            or another of ``Postprocessing.forward``. At first it is the readout
            ``representation``, else ``sts/representation``, else the ensemble.
    """

    method: Invertible  # type: ignore[assignment]

    def __init__(self, loaded: LoadedModel, card: str, device: str | torch.device | None) -> None:
        super().__init__(loaded, card, device_of(device))
        self.method = loaded.method.to(self.device).eval()
        default = TrainingSettings.model_fields["max_length"].default
        self.max_length = int(self.settings.get("max_length") or default)
        name = REPRESENTATION.name
        found = self.readouts.get(name) or self.readouts.get(f"sts/{name}")
        self.representation = str(found or SHIPPED)

    def represent(
        self,
        sentences: Sequence[str],
        component_from: ComponentFrom = "corpus",
        *,
        batch_size: int = 64,
    ) -> dict[str, Tensor]:
        """Return every representation of N sentences by its name, [N, d_z] or [N, n].

        Args:
            component_from: ``corpus`` removes the components that are stored with the model;
                ``task`` those of these very sentences, as papers' evaluations do.
        """
        found = Representations(self.method, max_length=self.max_length, size=batch_size)
        with torch.no_grad():
            return found(sentences, component_from)

    def features(self, sentences: Sequence[str], *, batch_size: int = 64) -> Tensor:
        """Return [N, 6 d_z] for a linear classifier: maxima, minima, means of both encoders."""
        found = Representations(self.method, max_length=self.max_length, size=batch_size)
        return found.features(sentences)

    def evaluate(
        self,
        tasks: Sequence[Task | ModelTask],
        readouts: Mapping[str, Any] | None = None,
        *,
        component_from: ComponentFrom = "corpus",
        batch_size: int = 64,
    ) -> Result:
        """Return metrics of all tasks, of STS by every representation.

        Args:
            readouts: the model's own to apply them, or None to choose anew.
            component_from: as in ``represent``; ``task`` fits on the sentences of each STS task.
        """

        def represent(sentences: Sequence[str]) -> dict[str, Tensor]:
            return self.represent(sentences, component_from, batch_size=batch_size)

        return evaluate_representations(tasks, represent, features=self.features, readouts=readouts)

    def _embed_block(
        self, sentences: Sequence[str], batch_size: int, advance: Callable[[int], None]
    ) -> Tensor:
        found = self.represent(sentences, batch_size=batch_size)
        if self.representation not in found:
            fix = f"choose among {', '.join(found)}"
            raise InvalidValue("representation", self.representation, fix)
        advance(len(sentences))
        return found[self.representation]
