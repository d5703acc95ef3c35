"""Methods with invertible decoders: trained on adjacent sentences as rows of a word table."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from sentune.corpora.encode_words import WordEncoder
from sentune.encoders.words import WordTable
from sentune.encoders.words.fixed import FixedVectors
from sentune.encoders.words.whole import load_whole, read_counts, save_whole
from sentune.errors import InvalidValue
from sentune.methods.invertible import Invertible, InvertibleSettings
from sentune.training.group import Group
from sentune.training.recipes.invertible_backward import InvertibleBackward
from sentune.training.recipes.invertible_validation import InvertibleValidator
from sentune.training.settings import TrainingSettings
from sentune.training.trial import TrialSpec

WEIGHTS_FILE, WORDS = "weights.safetensors", "words"


class InvertibleRecipe:
    """See ``sentune.training.recipes.base.Recipe``; the folder is one of ``training_folder``.

    A model folder has ``weights.safetensors`` (encoder, decoder and the removed components) and
    ``words/``, the whole word table.
    """

    def table_encoder(self, folder: str, max_length: int) -> WordEncoder:
        """Every sentence column as rows of the word table."""
        return WordEncoder(WordTable.load(folder), max_length)

    def build(
        self,
        kind: type[Invertible],
        settings: InvertibleSettings,
        training: TrainingSettings,
        folder: str,
    ) -> Invertible:
        """Return the method on the words of the folder."""
        del training
        return kind(FixedVectors(WordTable.load(folder)), settings)

    def backward(
        self, method: Invertible, training: TrainingSettings, group: Group, folder: str
    ) -> InvertibleBackward:
        """Negative sampling by the counts in the folder."""
        return InvertibleBackward(method, training, group, read_counts(folder))

    def validator(
        self, spec: TrialSpec, training: TrainingSettings, device: torch.device
    ) -> InvertibleValidator:
        """Return the judge of every representation; components come from the training corpus."""
        return InvertibleValidator(spec.dev.open(), spec.corpus, training, device, spec.readouts)

    def write(
        self, method: Invertible, source: str, folder: Path, training: TrainingSettings
    ) -> None:
        """Weights and words."""
        del source, training
        state = {name: tensor.contiguous() for name, tensor in method.state_dict().items()}
        save_file(state, folder / WEIGHTS_FILE)
        save_whole(method.vectors.table, folder / WORDS)

    def read(
        self,
        kind: type[Invertible],
        settings: InvertibleSettings,
        training: TrainingSettings,
        folder: Path,
    ) -> Invertible:
        """Weights and words; absent weights must never become random ones."""
        weights = folder / WEIGHTS_FILE
        if not weights.is_file():
            raise InvalidValue("model", str(folder), f"it is no model, without {WEIGHTS_FILE}")
        method = kind(FixedVectors(load_whole(folder / WORDS)), settings)
        found, wanted = load_file(weights), method.state_dict()
        if found.keys() != wanted.keys() or any(found[k].shape != wanted[k].shape for k in wanted):
            raise InvalidValue("model", str(folder), f"{WEIGHTS_FILE} does not fit its method")
        method.load_state_dict(found)
        return method
