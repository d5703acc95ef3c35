"""LINEAR from corpora to results (GumbelCSE sections 4.2 and 4.4), in one process.

A linear layer on BERT classifies pairs of sentences: in two classes, and for ambiguity in a second
stage with three.

Legend: N = pairs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from torch import nn
from torch.nn.functional import cross_entropy

from sentune.corpora.formats import read
from sentune.corpora.schema import Corpus, Kind
from sentune.encoders import load, prepare
from sentune.errors import CorpusError, TrialFailed
from sentune.methods.linear import EncodedPairs, PairClassifier, PairTokenizer
from sentune.readouts.three_way import (
    CLASSES,
    ENTAILMENT,
    NON_ENTAILMENT,
    class_metrics,
    class_of,
)
from sentune.tasks.base import Result, free_name
from sentune.training.precision import sentences_at_a_time
from sentune.training.schedules import learning_rate_factor, steps_for
from sentune.training.settings import check_length

Say = Callable[[str], None]
Classes = NDArray[np.int64]

TWO_WAY, THREE_WAY = "rte", "ambiguous-rte"
KINDS = {TWO_WAY: Kind.LABELLED_PAIRS, THREE_WAY: Kind.SEVERAL_LABELS}


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


def run_linear(
    *,
    corpus: str,
    encoder: str,
    tests: Sequence[tuple[str, str]],
    ambiguous: str | None = None,
    epochs: int = 1,
    second_epochs: int = 3,
    limit: int | None = None,
    max_examples: int | None = None,
    settings: LinearSettings,
    say: Say | None = None,
) -> Result:
    """Train and judge: ``rte`` after the first stage, ``ambiguous-rte`` in the end.

    In the second stage a new layer of three classes and the encoder are fine-tuned on all of
    ``ambiguous``: none of it is kept to choose the number of epochs. Without a second stage
    ``ambiguous-rte`` is answered in two classes, never by both.

    Args:
        corpus: of triplets, the first stage's.
        encoder: Hugging Face name, folder, or ``builtin:tiny``.
        tests: (task, corpus) pairs, each task one of ``KINDS``.
        ambiguous: pairs of several labels, the second stage's; without it there is one stage.
        limit: rows of each corpus at most.
        max_examples: pairs of the first stage at most; a triplet makes two.

    Raises:
        InvalidValue: a corpus or encoder that there is not, or pairs too long for the encoder.
        CorpusError: a corpus that cannot be read.
        TrialFailed: the training cannot go on.
    """
    stages = [two_way_examples(read(corpus, Kind.TRIPLETS, limit=limit))]
    if ambiguous is not None:
        stages.append(three_way_examples(read(ambiguous, Kind.SEVERAL_LABELS, limit=limit)))
    judged: dict[str, tuple[str, ClassifiedPairs]] = {}
    for kind, spec in tests:
        examples = two_way_examples if kind == TWO_WAY else three_way_examples
        name = free_name([kind, f"{kind}-{spec.partition(':')[0]}"], judged)
        judged[name] = kind, examples(read(spec, KINDS[kind], limit=limit))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    texts = (text for stage in stages for pair in stage.pairs for text in pair)
    with tempfile.TemporaryDirectory() as cache:
        folder = prepare(encoder, texts, Path(cache))  # a built-in one learns its word pieces
        model, tokenizer = build(folder, settings, device), PairTokenizer(folder)
    result = Result()

    def judge(kind: str) -> None:
        judge_classes = judge_two_way if kind == TWO_WAY else judge_three_way
        for name, (of_kind, test) in judged.items():
            if of_kind == kind:
                answers = predict(model, tokenizer, test.pairs, settings.max_length)
                result.update(judge_classes(name, answers, test.classes))

    first, *second = stages
    fit(model, tokenizer, first, settings, epochs=epochs, max_examples=max_examples, say=say)
    judge(TWO_WAY)
    for stage in second:
        model.renew(len(CLASSES))
        fit(model, tokenizer, stage, settings, epochs=second_epochs, say=say)
    judge(THREE_WAY)
    return result


def build(encoder: str, settings: LinearSettings, device: torch.device) -> PairClassifier:
    """Return a two-way classifier on a prepared encoder, new weights drawn from the seed.

    Raises:
        InvalidValue: the encoder cannot take pairs of ``max_length`` tokens.
    """
    torch.manual_seed(settings.seed)
    text_encoder = load(encoder)
    check_length(settings.max_length, text_encoder.max_length)
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
        say: called with the loss ten times.

    Raises:
        TrialFailed: a loss is not finite.
    """
    encoded, rows = tokenizer.encode(examples.pairs, settings.max_length), len(examples.pairs)
    steps = epochs * steps_for(rows, settings.batch_size)
    if max_examples is not None:
        steps = min(steps, steps_for(max_examples, settings.batch_size))
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.0)
    torch.manual_seed(settings.seed)  # dropout, whatever was drawn before
    model.train()
    losses: list[float] = []
    for step, places in enumerate(islice(_batches(rows, settings), steps)):
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
    parts = torch.split(gold, [len(chunk.input_ids) for chunk in chunks])
    for chunk, part in zip(chunks, parts, strict=True):
        loss = cross_entropy(model(chunk.to(device)), part, reduction="sum") / len(gold)
        torch.autograd.backward(loss)
        total += loss.item()
    return total


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


def two_way_examples(corpus: Corpus) -> ClassifiedPairs:
    """Pairs in two classes: entailment or non-entailment.

    A triplet gives (anchor, positive), an entailment, and (anchor, negative), none: the training
    set of SimCSE. Of labelled pairs, neutral and contradiction are one class.

    Raises:
        CorpusError: the corpus has neither.
    """
    columns = corpus.table.to_pydict()
    if corpus.kind is Kind.TRIPLETS:
        rows = zip(columns["anchor"], columns["positive"], columns["negative"], strict=True)
        pairs = [pair for a, p, n in rows for pair in ((a, p), (a, n))]
        return ClassifiedPairs(pairs, np.tile([ENTAILMENT, NON_ENTAILMENT], corpus.table.num_rows))
    if corpus.kind is Kind.LABELLED_PAIRS:
        classes = [ENTAILMENT if c == "entailment" else NON_ENTAILMENT for c in columns["label"]]
        pairs = list(zip(columns["premise"], columns["hypothesis"], strict=True))
        return ClassifiedPairs(pairs, np.array(classes, dtype=np.int64))
    raise CorpusError(corpus.spec, f"triplets or labelled pairs are needed, not {corpus.kind}")


def three_way_examples(corpus: Corpus) -> ClassifiedPairs:
    """Pairs in three classes: entailment, non-entailment, or both where the labels say both.

    Raises:
        CorpusError: the corpus has no pairs of several labels.
    """
    if corpus.kind is not Kind.SEVERAL_LABELS:
        raise CorpusError(corpus.spec, f"pairs of several labels are needed, not {corpus.kind}")
    columns = corpus.table.to_pydict()
    classes = np.array([class_of(labels) for labels in columns["labels"]], dtype=np.int64)
    return ClassifiedPairs(
        list(zip(columns["premise"], columns["hypothesis"], strict=True)), classes
    )


def judge_two_way(name: str, predicted: Classes, gold: Classes) -> Result:
    """Accuracy of entailment or not, and of always saying the commoner class (``majority``)."""
    share = float((gold == ENTAILMENT).mean())
    metrics = {"accuracy": float((predicted == gold).mean()), "majority": max(share, 1 - share)}
    return _result(name, metrics, len(gold))


def judge_three_way(name: str, predicted: Classes, gold: Classes) -> Result:
    """See ``readouts.three_way.class_metrics``."""
    return _result(name, class_metrics(gold, predicted), len(gold))


def _result(name: str, metrics: dict[str, float], pairs: int) -> Result:
    return Result(
        metrics={f"{name}/{metric}": value for metric, value in metrics.items()},
        tables={f"{name}/counts.json": {"pairs": pairs}},
    )
