"""One stage of training LINEAR (GumbelCSE sections 4.2 and 4.4), in one process.

Legend: N = pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from torch import nn
from torch.nn.functional import cross_entropy

from sentune.encoders import load
from sentune.errors import InvalidValue, TrialFailed
from sentune.methods.linear import EncodedPairs, PairClassifier, PairTokenizer
from sentune.training.precision import sentences_at_a_time
from sentune.training.schedules import learning_rate_factor, steps_for

Say = Callable[[str], None]
Classes = NDArray[np.int64]


class LinearSettings(BaseModel):
    """How LINEAR is trained. The paper gives no more than its training data."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    batch_size: int = Field(32, ge=1)
    """Pairs of a step; BERT's authors fine-tune with 16 or 32."""
    learning_rate: float = Field(5e-5, gt=0.0)
    """Highest learning rate of AdamW, falling to 0 at the end of a stage."""
    warmup: float = Field(0.1, ge=0.0, lt=1.0)
    """Share of a stage's steps over which the learning rate rises from 0."""
    clip_norm: float = Field(1.0, gt=0.0)
    """Largest norm of the whole gradient."""
    max_length: int = Field(128, ge=8)
    """Most tokens of a pair, special tokens included."""
    seed: int = Field(0, ge=0)
    """Of new weights, dropout and the order of the pairs."""


@dataclass(frozen=True)
class ClassifiedPairs:
    """N pairs (premise, hypothesis) and their classes, as ``readouts.three_way`` numbers them."""

    pairs: Sequence[tuple[str, str]]
    classes: Classes

    def __len__(self) -> int:
        return len(self.pairs)


def build(encoder: str, settings: LinearSettings, device: torch.device) -> PairClassifier:
    """Return a two-way classifier on a prepared encoder, new weights drawn from the seed.

    Raises:
        InvalidValue: the encoder cannot take pairs of ``max_length`` tokens.
    """
    torch.manual_seed(settings.seed)
    text_encoder = load(encoder)
    if settings.max_length > text_encoder.max_length:
        fix = f"the encoder takes at most {text_encoder.max_length} tokens"
        raise InvalidValue("max_length", settings.max_length, fix)
    return PairClassifier(text_encoder, 2).to(device)


def fit(
    model: PairClassifier,
    tokenizer: PairTokenizer,
    examples: ClassifiedPairs,
    settings: LinearSettings,
    *,
    epochs: int,
    max_examples: int | None = None,
    say: Say | None = None,
) -> list[float]:
    """One stage: AdamW on the cross-entropy, linear warm-up and fall. Returns each step's loss.

    A batch goes through the encoder in parts of pairs of like length, which changes no gradient.

    Args:
        epochs: passes over the examples, each in an order of its own.
        max_examples: fewer pairs than that, for a shorter run; the schedule ends there.
        say: told the loss ten times.

    Raises:
        TrialFailed: a loss is not finite.
    """
    encoded = tokenizer.encode(examples.pairs, settings.max_length)
    steps = epochs * steps_for(len(examples), settings.batch_size)
    if max_examples is not None:
        steps = min(steps, steps_for(max_examples, settings.batch_size))
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.0)
    torch.manual_seed(settings.seed)  # dropout, whatever was drawn before
    model.train()
    losses: list[float] = []
    for step, places in enumerate(islice(_batches(len(examples), settings), steps)):
        factor = learning_rate_factor("linear", step=step, steps=steps, warmup=settings.warmup)
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * factor
        optimizer.zero_grad()
        loss = _backward(model, tokenizer, encoded.take(places), examples.classes[places])
        if not np.isfinite(loss):
            raise TrialFailed(f"the loss is {loss} in step {step + 1}: lower --learning-rate")
        nn.utils.clip_grad_norm_(model.parameters(), settings.clip_norm)
        optimizer.step()
        losses.append(loss)
        if say is not None and (step + 1) * 10 // steps > step * 10 // steps:
            say(f"{step + 1:>9,} of {steps:,} steps  loss {np.mean(losses[-100:]):.4f}")
    return losses


@torch.inference_mode()
def predict(
    model: PairClassifier,
    tokenizer: PairTokenizer,
    pairs: Sequence[tuple[str, str]],
    max_length: int,
) -> Classes:
    """[N] the class with the largest logit."""
    model.eval()
    device = model.layer.weight.device
    encoded = tokenizer.encode(pairs, max_length)
    chunks, restore = tokenizer.chunks(encoded, sentences_at_a_time(device))
    found = torch.cat([model(chunk.to(device)).argmax(1).cpu() for chunk in chunks])[restore]
    return np.asarray(found.numpy(), dtype=np.int64)


def _batches(rows: int, settings: LinearSettings) -> Iterator[Classes]:
    """Rows of each batch, epoch after epoch without end; the last batch of one may be smaller."""
    random = np.random.default_rng(settings.seed)
    while True:
        order = random.permutation(rows)
        yield from (order[i : i + settings.batch_size] for i in range(0, rows, settings.batch_size))


def _backward(
    model: PairClassifier, tokenizer: PairTokenizer, pairs: EncodedPairs, classes: Classes
) -> float:
    """Add the gradient of the mean loss of a batch and return that loss."""
    device = model.layer.weight.device
    chunks, restore = tokenizer.chunks(pairs, sentences_at_a_time(device))
    gold = torch.from_numpy(classes)[torch.argsort(restore)].to(device)
    total = 0.0
    parts = gold.split([len(chunk.input_ids) for chunk in chunks])
    for chunk, part in zip(chunks, parts, strict=True):
        loss = cross_entropy(model(chunk.to(device)), part, reduction="sum") / len(gold)
        loss.backward()
        total += loss.item()
    return total
