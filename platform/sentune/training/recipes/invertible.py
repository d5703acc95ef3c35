"""The recipe of methods with invertible decoders, trained on adjacent sentences of known words.

Validation fits the removed components, then evaluates every representation.

Legend: K = negative samples of a word, W = words of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor

from sentune.corpora.batches import BatchSource
from sentune.encoders.words import WordTable
from sentune.encoders.words.vectors import FixedVectors
from sentune.encoders.words.whole import load_whole, read_counts, save_whole
from sentune.errors import InvalidValue
from sentune.methods.invertible import Invertible
from sentune.methods.invertible_representations import Representations
from sentune.readouts.grid import REPRESENTATION, grid_of
from sentune.tasks import Result
from sentune.tasks.variants import evaluate_representations
from sentune.training.group import Group
from sentune.training.precision import autocast, sentences_at_a_time
from sentune.training.recipes.base import Rows, Tasks, Validator
from sentune.training.recipes.sentences import head_state, load_head, require, write_modules
from sentune.training.settings import TrainingSettings
from sentune.training.trial import TrialSpec

WEIGHTS_FILE, WORDS = "weights.safetensors", "words"

SAMPLE_SEED = 0
"""Seed of the sample on which components are fitted, the same for every trial of a study."""


class InvertibleRecipe:
    """The ``Recipe`` of invertible decoders; ``folder`` is one written by ``training_folder``.

    A model folder has ``weights.safetensors`` (encoder, decoder and removed components) and
    ``words/``, the whole word table.
    """

    def build(
        self, make: Callable[..., Invertible], training: TrainingSettings, folder: str
    ) -> Invertible:
        return make(FixedVectors(WordTable.load(folder)))

    def backward(
        self, method: Invertible, training: TrainingSettings, group: Group, folder: str
    ) -> InvertibleBackward:
        return InvertibleBackward(method, training, group, read_counts(folder))

    def validator(
        self, spec: TrialSpec, training: TrainingSettings, device: torch.device
    ) -> InvertibleValidator:
        return InvertibleValidator(spec, training, device)

    def write(
        self, method: Invertible, source: str, folder: Path, training: TrainingSettings
    ) -> None:
        save_file(head_state(method, ()), folder / WEIGHTS_FILE)
        save_whole(method.vectors.table, folder / WORDS)
        write_modules(folder)

    def read(self, make: Callable[..., Invertible], folder: Path) -> Invertible:
        require(folder, WEIGHTS_FILE)
        method = make(FixedVectors(load_whole(folder / WORDS)))
        load_head(method, folder / WEIGHTS_FILE, ())
        return method


class InvertibleValidator(Validator):
    """Fits components on a sample of the training corpus, then evaluates all representations."""

    _sample: list[np.ndarray] | None = None

    def _evaluate(self, method: Invertible, tasks: Tasks) -> Result:
        """Evaluate a method, which keeps the components; ``train/deviation`` is that of W."""
        if self._sample is None:
            wanted = method.settings.component_sentences
            self._sample = sample(self._spec.corpus.open(), wanted)
        size = sentences_at_a_time(self._device)
        represent = Representations(method, max_length=self._settings.max_length, size=size)
        with torch.no_grad(), autocast(self._settings.precision, self._device):
            represent.fit(self._sample)
            found = evaluate_representations(
                tasks,
                represent,
                features=represent.features,
                grid=grid_of(REPRESENTATION, self._spec.readouts),
                objective=self._spec.objective,
            )
        found.metrics["train/deviation"] = method.decoder.deviation()
        return found


def sample(source: BatchSource, wanted: int) -> list[np.ndarray]:
    """Return at most ``wanted`` sentences with known words from the shuffled first epoch."""
    size = min(512, source.num_rows)
    found: list[np.ndarray] = []
    for batch in source.batches(size, SAMPLE_SEED):
        if batch.epoch or len(found) >= wanted:
            break
        found += [row for row in batch.columns["text"] if len(row)]
    return found[:wanted]


POWER = 0.75
"""Exponent of the unigram distribution: Mikolov et al. (2013b), as in Tang and de Sa, section 3.1.
"""


class InvertibleBackward:
    """Computes loss and gradient by negative sampling; see ``sentune.training.recipes.base``.

    The loss is the mean over those pairs of the global batch whose sentences both have known words,
    and 0 without a gradient if there are none. Every worker draws the negative samples of the whole
    batch from the first worker's seed, so that the result does not depend on the number of workers.
    With ``micro_batch``, gradients of parts are accumulated.
    """

    def __init__(
        self,
        method: Invertible,
        settings: TrainingSettings,
        group: Group,
        counts: NDArray[np.int64],
    ) -> None:
        self.method, self._settings, self._group = method, settings, group
        self._negatives = Negatives(counts, group.device)
        group.send_parameters(method)

    def __call__(self, columns: Mapping[str, Rows]) -> Tensor:
        pairs = [
            (text, following)
            for text, following in zip(columns["text"], columns["following"], strict=True)
            if len(text) and len(following)
        ]
        total = torch.zeros((), dtype=self.method.dtype, device=self._group.device)
        for texts, followings, negatives in self._parts(pairs):
            with autocast(self._settings.precision, self._group.device):
                loss = self.method.loss(texts, followings, negatives)
            loss = loss * (self._group.world_size / len(pairs))
            torch.autograd.backward(loss)
            total += loss.detach()
        self._group.average_gradients(self.method.parameters())
        return total

    def _parts(
        self, pairs: Sequence[tuple[np.ndarray, np.ndarray]]
    ) -> Iterator[tuple[list[np.ndarray], list[np.ndarray], Tensor]]:
        """Yield this worker's pairs with their negative samples, ``micro_batch`` at a time."""
        ends = np.cumsum([0, *(len(following) for _, following in pairs)])
        each = self.method.settings.negatives
        seed = self._group.agree(torch.initial_seed())
        drawn = self._negatives.draw(int(ends[-1]) * each, seed).view(-1, each)
        local = self._group.slice(len(pairs))
        size = self._settings.micro_batch or max(1, len(pairs))
        for start in range(local.start, local.stop, size):
            stop = min(start + size, local.stop)
            texts, followings = zip(*pairs[start:stop], strict=True)
            yield list(texts), list(followings), drawn[ends[start] : ends[stop]]


class Negatives:
    """Draws words from the unigram distribution raised to the power 0.75.

    A draw is a binary search in the cumulative probabilities. The 30,000 draws of a step take 2 ms
    on a CPU, and the memory is one number for each word.

    Args:
        counts: [W] number of occurrences of each word in the training corpus.

    Raises:
        InvalidValue: all counts are 0.
    """

    def __init__(self, counts: NDArray[np.int64], device: torch.device) -> None:
        if not counts.any():
            raise InvalidValue("counts", 0, "no known word occurs in the training corpus")
        weights = np.cumsum(counts.astype(np.float64) ** POWER)
        self._cumulative = torch.from_numpy(weights / weights[-1]).to(device)

    def draw(self, count: int, seed: int) -> Tensor:
        """Return rows of the word table, [count], reproducible on devices of the same kind."""
        device = self._cumulative.device
        generator = torch.Generator(device).manual_seed(seed)
        places = torch.rand(count, generator=generator, dtype=torch.float64, device=device)
        # right=True never returns a word of probability 0
        return torch.searchsorted(self._cumulative, places, right=True)
