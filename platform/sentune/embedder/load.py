"""Loading of models from folders, object stores and the registry, and embedders on word vectors.

Legend: N = sentences, d_z = width of a sentence vector, n = width of a word vector.
"""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache, cached_property, partial
from json import JSONDecodeError
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from sentune.embedder.embedder import Embedder, device_of
from sentune.embedder.encode import listed
from sentune.embedder.pretrained import PREFIXES, PointEmbedder, load_pretrained
from sentune.embedder.references import StoredReferences
from sentune.errors import InvalidValue, first_line
from sentune.io.folders import found_again
from sentune.io.object_store import asked, files_at, on_this_machine
from sentune.methods import CLOSED_FORM, Invertible
from sentune.methods.invertible import ComponentFrom
from sentune.methods.invertible_representations import Representations
from sentune.readouts.grid import REPRESENTATION
from sentune.tasks.base import ModelTask, Result, Task
from sentune.tasks.variants import SHIPPED, evaluate_representations
from sentune.training.closed_form_model import load_closed_form
from sentune.training.model import (
    CARD_FILE,
    MANIFEST,
    LoadedModel,
    check_model,
    load_method,
    read_settings,
)
from sentune.training.settings import TrainingSettings


class InvertibleEmbedder(PointEmbedder):
    """A trained model with an invertible decoder, which has several representations.

    Attributes:
        representation: representation that ``embed`` and ``encode`` return: ``ensemble``, ``z_en``,
            ``z_de`` or another of ``Postprocessing.forward``. The default is the readout
            ``representation``, else ``sts/representation``, else ``ensemble``.
    """

    method: Invertible  # type: ignore[assignment]
    max_length: int

    def __init__(self, loaded: LoadedModel, card: str, device: str | torch.device | None) -> None:
        super().__init__(
            loaded.method.name,
            self._represented,
            device_of(device),
            settings=loaded.settings,
            readouts=loaded.readouts,
            card=card,
        )
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
        """Return name -> representation of N sentences, [N, d_z] or [N, n].

        Args:
            component_from: principal components to remove: ``corpus``, those stored with the model,
                or ``task``, those of these sentences, as in the papers' evaluations.
            batch_size: sentences per batch.
        """
        found = Representations(self.method, max_length=self.max_length, size=batch_size)
        with torch.no_grad():
            return found(listed(sentences), component_from)

    def features(self, sentences: Sequence[str], *, batch_size: int = 64) -> Tensor:
        """Return maxima, minima and means of both encoders for a linear classifier, [N, 6 d_z]."""
        found = Representations(self.method, max_length=self.max_length, size=batch_size)
        return found.features(listed(sentences))

    def evaluate(
        self,
        tasks: Sequence[Task | ModelTask],
        readouts: Mapping[str, Any] | None = None,
        *,
        component_from: ComponentFrom = "corpus",
        batch_size: int = 64,
    ) -> Result:
        """Return the metrics of all tasks; STS tasks evaluate every representation.

        Args:
            readouts: values to apply, such as ``self.readouts``; None: choose them on these tasks.
            component_from: as in ``represent``; ``task`` uses the sentences of each STS task.
            batch_size: sentences per batch.
        """

        def represent(sentences: Sequence[str]) -> dict[str, Tensor]:
            return self.represent(sentences, component_from, batch_size=batch_size)

        own = Representations(self.method, max_length=self.max_length, size=batch_size)
        return evaluate_representations(tasks, represent, features=own.features, readouts=readouts)

    @cached_property
    def _widths(self) -> dict[str, int]:
        return {name: rows.shape[1] for name, rows in self.represent([""]).items()}

    @property
    def _width(self) -> int:
        return self._widths.get(self.representation) or self.embed([]).shape[1]

    def _represented(self, sentences: list[str], batch_size: int) -> Tensor:
        found = self.represent(sentences, batch_size=batch_size)
        if self.representation not in found:
            fix = f"choose among {', '.join(found)}"
            raise InvalidValue("representation", self.representation, fix)
        return found[self.representation]


def load(source: str | Path, device: str | torch.device | None = None) -> Embedder:
    """Load a model as the embedder class for its method; see ``Embedder.load``."""
    if str(source).startswith(PREFIXES):
        return load_pretrained(str(source), device)
    folder = folder_of(source)
    if not folder.is_dir():
        fix = "there is no such folder; models of the hub are written hf:NAME"
        raise InvalidValue("model", str(folder), fix)
    if (folder / "model" / MANIFEST).is_file():
        raise InvalidValue("model", str(folder), f"it is a study; name {folder / 'model'}")
    check_model(folder)
    card = folder / CARD_FILE
    text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
    try:
        if read_settings(folder)["method"] in CLOSED_FORM:
            return _on_words(load_closed_form(folder), text)
        model = load_method(folder)
    except (SafetensorError, JSONDecodeError, UnicodeDecodeError, OSError) as error:
        fix = f"one of its files cannot be read: {first_line(error)}"
        raise InvalidValue("model", str(folder), fix) from error
    if model.tokenizer is None:
        return InvertibleEmbedder(model, text, device)
    return Embedder(
        model.method,
        model.tokenizer,
        settings=model.settings,
        readouts=model.readouts,
        card=text,
        references=StoredReferences.load(folder),
        device=device,
    )


def _on_words(loaded: LoadedModel, card: str) -> PointEmbedder:
    """Return the embedder of a closed-form method at the chosen value of its readout."""
    value = int(loaded.readouts[loaded.method.axis.name])
    return PointEmbedder(
        loaded.method.name,
        partial(_fitted_rows, loaded.method, value),
        torch.device("cpu"),
        settings=loaded.settings,
        readouts=loaded.readouts,
        card=card,
    )


def _fitted_rows(method: Any, value: int, sentences: list[str], _: int) -> Tensor:
    return torch.from_numpy(method.embed(sentences, value))


def folder_of(source: str | Path) -> Path:
    """Return the local folder of a path, of an fsspec URI, or of ``models:/NAME@champion``.

    A folder in an object store is copied once per process and manifest.

    Raises:
        InvalidValue: there is no such model.
        StorageError: the store refuses access or does not answer.
    """
    if str(source).startswith("models:/"):
        from sentune.tracking.registry import resolve_model

        return Path(resolve_model(str(source)))
    if "://" in str(source):
        uri = str(source)
        files, root = files_at(uri)
        try:
            manifest = asked(uri, lambda: files.cat_file(f"{root}/{MANIFEST}"))
        except FileNotFoundError:  # earlier versions wrote none
            manifest = b""
        return _copied(uri, manifest)
    path = Path(source).expanduser()
    return found_again(path) if path.name else path  # the name of "." is empty


_COPIES = ExitStack()
atexit.register(_COPIES.close)


@cache
def _copied(uri: str, manifest: bytes) -> Path:
    """Return a local copy of a folder, cached by URI and manifest."""
    try:
        return _COPIES.enter_context(on_this_machine(uri))
    except FileNotFoundError as error:
        raise InvalidValue("model", uri, "there is no such folder") from error
