"""LINEAR, the baseline of GumbelCSE sections 4.2 and 4.4: a BERT cross-encoder.

A linear layer on the last hidden state of [CLS] over "[CLS] p [SEP] h [SEP]" classifies pairs into
two classes, and for ambiguous RTE in a second stage into three. It does not embed sentences, so it
is not a ``SentenceMethod``; ``run_linear`` trains and evaluates it in one process.

Legend: N = pairs, L = tokens, C = classes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from sentune.corpora.formats import read
from sentune.corpora.schema import Corpus, Kind
from sentune.encoders import TextEncoder, load, prepare
from sentune.encoders.tokenizing import Tokenizer, begins_with_cls
from sentune.errors import InvalidValue, TrialFailed
from sentune.methods.base import Settings
from sentune.readouts.three_way import (
    CLASSES,
    ENTAILMENT,
    NON_ENTAILMENT,
    class_metrics,
    class_of,
    class_weights,
)
from sentune.tasks.base import Result
from sentune.training.precision import sentences_at_a_time
from sentune.training.settings import check_length, learning_rate_factor, steps_for

Say = Callable[[str], None]
Classes = NDArray[np.int64]
Pairs = Sequence[tuple[str, str]]
Inputs = dict[str, Tensor]

TWO_WAY, THREE_WAY = "rte", "ambiguous-rte"
KINDS = {TWO_WAY: Kind.LABELLED_PAIRS, THREE_WAY: Kind.SEVERAL_LABELS}

WARMUP, CLIP_NORM = 0.1, 1.0
"""Share of the steps of a stage with a rising learning rate; maximum norm of the gradient."""


class LinearSettings(Settings):
    """Training settings of LINEAR; the paper states only its training data."""

    batch_size: int = Field(32, ge=1)
    """Pairs of a step; BERT's authors fine-tune with 16 or 32."""
    learning_rate: float = Field(5e-5, gt=0.0)
    """Highest learning rate of AdamW, which falls to 0 at the end of a stage."""
    max_length: int = Field(128, ge=8)
    """Maximum tokens of a pair, including special tokens."""
    seed: int = Field(0, ge=0)
    """Seed of new weights, dropout and the order of the pairs."""


@dataclass(frozen=True)
class ClassifiedPairs:
    """N pairs (premise, hypothesis) and their classes, numbered as in ``readouts.three_way``."""

    pairs: Pairs
    classes: Classes


class PairTokenizer(Tokenizer):
    """The tokenizer of an encoder folder, for pairs of at most ``max_length`` tokens.

    Raises:
        InvalidValue: the tokenizer does not put [CLS], which LINEAR classifies, before a pair.
    """

    def __init__(self, folder: str, max_length: int) -> None:
        super().__init__(folder)
        if not begins_with_cls(self._tokenizer):
            fix = "name an encoder whose tokenizer begins sentences with [CLS]"
            raise InvalidValue("--encoder", folder, fix)
        self._max_length = max_length

    def parts(self, pairs: Pairs, device: torch.device) -> Iterator[tuple[Classes, Inputs]]:
        """Yield batches of pairs of similar length, the longest first.

        A batch has the indices of its pairs, and [N, L] token ids, token types (0 for the premise,
        1 for the hypothesis) and attention mask of "[CLS] p [SEP] h [SEP]". If a pair is too long,
        its longer side is truncated first.
        """
        encoded = self._tokenizer(
            [premise for premise, _ in pairs],
            [hypothesis for _, hypothesis in pairs],
            truncation="longest_first",
            max_length=self._max_length,
            return_token_type_ids=True,
        )
        order = np.argsort([-len(ids) for ids in encoded["input_ids"]], kind="stable")
        size = sentences_at_a_time(device)
        for start in range(0, len(order), size):
            places = order[start : start + size]
            part = {name: [rows[place] for place in places] for name, rows in encoded.items()}
            yield places, dict(self._tokenizer.pad(part, return_tensors="pt").to(device))


class PairClassifier(nn.Module):
    """A linear classifier of pairs on an encoder's [CLS], initialised by torch's generator."""

    def __init__(self, encoder: TextEncoder, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.layer = nn.Linear(encoder.width, classes)

    def renew(self, classes: int) -> None:
        """Replace the linear layer by a new one of ``classes`` outputs; keep the encoder."""
        self.layer = nn.Linear(self.encoder.width, classes).to(self.layer.weight.device)

    def forward(self, inputs: Inputs) -> Tensor:
        """Return logits [N, C] from token ids, token types and mask, [N, L] each."""
        # RoBERTa has one token type and DistilBERT none: only the separators mark p and h
        if getattr(self.encoder.model.config, "type_vocab_size", 0) < 2:
            inputs = {name: part for name, part in inputs.items() if name != "token_type_ids"}
        states = self.encoder.stack(**inputs).last_hidden_state
        logits: Tensor = self.layer(states[:, 0].to(self.encoder.dtype))
        return logits


def run_linear(
    *,
    corpus: str,
    encoder: str,
    tests: Mapping[str, tuple[str, str]],
    ambiguous: str | None = None,
    epochs: int = 1,
    second_epochs: int = 3,
    limit: int | None = None,
    max_examples: int | None = None,
    prior: str = "",
    settings: LinearSettings,
    say: Say | None = None,
) -> Result:
    """Train LINEAR and return its metrics: ``rte`` after stage one, ``ambiguous-rte`` at the end.

    The second stage fine-tunes the encoder and a new layer of three classes on all of
    ``ambiguous``; no part is held out to choose the number of epochs. Without a second stage,
    ``ambiguous-rte`` is answered in two classes and never with both.

    Args:
        corpus: triplets for the first stage.
        encoder: Hugging Face name, folder, or ``builtin:tiny``.
        tests: name -> (task of ``KINDS``, corpus); metrics are ``NAME/METRIC``.
        ambiguous: corpus of pairs with several labels for the second stage; None: one stage.
        epochs, second_epochs: passes over the corpora of the two stages.
        limit: maximum rows of each corpus.
        max_examples: maximum pairs of the first stage; a triplet gives two.
        prior: class prior to which the pairs are weighted in the loss of the second stage, see
            ``readouts.three_way.class_weights``.
        say: called with lines that tell the progress.

    Raises:
        InvalidValue: a corpus or the encoder does not exist, ``max_length`` is too large for the
            encoder, or the prior does not fit the corpus.
        CorpusError: a corpus cannot be read.
        TrialFailed: a loss is not finite.
    """
    stages = [two_way_examples(read(corpus, Kind.TRIPLETS, limit=limit))]
    if ambiguous is not None:
        stages.append(three_way_examples(read(ambiguous, Kind.SEVERAL_LABELS, limit=limit)))
    weights = torch.from_numpy(class_weights(prior, stages[-1].classes)).float()
    judged: dict[str, tuple[str, ClassifiedPairs]] = {}
    for name, (kind, spec) in tests.items():
        examples = two_way_examples if kind == TWO_WAY else three_way_examples
        judged[name] = kind, examples(read(spec, KINDS[kind], limit=limit))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    texts = (text for stage in stages for pair in stage.pairs for text in pair)
    with tempfile.TemporaryDirectory() as cache:
        folder = prepare(encoder, texts, Path(cache))  # a built-in encoder learns its word pieces
        model = build(folder, settings, device)
        tokenizer = PairTokenizer(folder, settings.max_length)
    result = Result()

    def judge_all(kind: str) -> None:
        for name, (of_kind, test) in judged.items():
            if of_kind == kind:
                answers = predict(model, tokenizer, test.pairs)
                result.update(judge(name, kind, answers, test.classes))

    fit(model, tokenizer, stages[0], settings, epochs=epochs, max_examples=max_examples, say=say)
    judge_all(TWO_WAY)
    for stage in stages[1:]:
        model.renew(len(CLASSES))
        fit(model, tokenizer, stage, settings, epochs=second_epochs, weights=weights, say=say)
    judge_all(THREE_WAY)
    return result


def build(encoder: str, settings: LinearSettings, device: torch.device) -> PairClassifier:
    """Return a two-way classifier on a prepared encoder, initialised from the seed.

    Raises:
        InvalidValue: ``max_length`` is too large for the encoder.
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
    weights: Tensor | None = None,
    say: Say | None = None,
) -> list[float]:
    """Train one stage by AdamW on the cross-entropy, and return the loss of each step.

    The learning rate rises and falls linearly.

    Args:
        epochs: passes over the examples, each in a new order.
        max_examples: maximum number of pairs; a shorter run also shortens the schedule.
        weights: [C] weight of a pair of each class in the loss.
        say: called with the loss ten times.

    Raises:
        TrialFailed: a loss is not finite.
    """
    rows = len(examples.pairs)
    steps = epochs * steps_for(rows, settings.batch_size)
    if max_examples is not None:
        steps = min(steps, steps_for(max_examples, settings.batch_size))
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.0)
    torch.manual_seed(settings.seed)  # of dropout
    model.train()
    losses: list[float] = []
    for step, batch in enumerate(islice(_batches(rows, settings), steps)):
        factor = learning_rate_factor("linear", step=step, steps=steps, warmup=WARMUP)
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * factor
        optimizer.zero_grad()
        pairs = [examples.pairs[row] for row in batch]
        loss = _backward(model, tokenizer, pairs, examples.classes[batch], weights)
        if not np.isfinite(loss):
            raise TrialFailed(f"the loss is {loss} in step {step + 1}; lower --learning-rate")
        nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        losses.append(loss)
        if say is not None and (step + 1) * 10 // steps > step * 10 // steps:
            say(f"{step + 1:>9,} of {steps:,} steps  loss {np.mean(losses[-100:]):.4f}")
    return losses


def _batches(rows: int, settings: LinearSettings) -> Iterator[Classes]:
    """Yield the rows of each batch endlessly; the last batch of an epoch may be smaller."""
    random = np.random.default_rng(settings.seed)
    while True:
        order = random.permutation(rows)
        yield from (order[i : i + settings.batch_size] for i in range(0, rows, settings.batch_size))


def _backward(
    model: PairClassifier,
    tokenizer: PairTokenizer,
    pairs: Pairs,
    classes: Classes,
    weights: Tensor | None = None,
) -> float:
    """Add the gradient of the mean loss of a batch and return the loss."""
    device, total = model.layer.weight.device, 0.0
    weights = None if weights is None else weights.to(device)
    for places, inputs in tokenizer.parts(pairs, device):
        gold = torch.from_numpy(classes[places]).to(device)
        loss = cross_entropy(model(inputs), gold, weights, reduction="sum") / len(pairs)
        torch.autograd.backward(loss)
        total += loss.item()
    return total


@torch.inference_mode()
def predict(model: PairClassifier, tokenizer: PairTokenizer, pairs: Pairs) -> Classes:
    """Return the class with the largest logit for each pair, [N]."""
    model.eval()
    found = np.zeros(len(pairs), dtype=np.int64)
    for places, inputs in tokenizer.parts(pairs, model.layer.weight.device):
        found[places] = model(inputs).argmax(1).cpu().numpy()
    return found


def two_way_examples(corpus: Corpus) -> ClassifiedPairs:
    """Return triplets or labelled pairs as pairs in two classes, entailment or non-entailment.

    A triplet gives an entailment (anchor, positive) and a non-entailment (anchor, negative). Of
    labelled pairs, neutral and contradiction are non-entailments.
    """
    columns = corpus.table.to_pydict()
    if corpus.kind is Kind.TRIPLETS:
        rows = zip(columns["anchor"], columns["positive"], columns["negative"], strict=True)
        pairs = [pair for a, p, n in rows for pair in ((a, p), (a, n))]
        return ClassifiedPairs(pairs, np.tile([ENTAILMENT, NON_ENTAILMENT], corpus.table.num_rows))
    classes = [ENTAILMENT if c == "entailment" else NON_ENTAILMENT for c in columns["label"]]
    pairs = list(zip(columns["premise"], columns["hypothesis"], strict=True))
    return ClassifiedPairs(pairs, np.array(classes, dtype=np.int64))


def three_way_examples(corpus: Corpus) -> ClassifiedPairs:
    """Return pairs with several labels in three classes: entailment, non-entailment, or both."""
    columns = corpus.table.to_pydict()
    classes = np.array([class_of(labels) for labels in columns["labels"]], dtype=np.int64)
    pairs = list(zip(columns["premise"], columns["hypothesis"], strict=True))
    return ClassifiedPairs(pairs, classes)


def judge(name: str, kind: str, predicted: Classes, gold: Classes) -> Result:
    """Return the metrics of predictions on a test corpus.

    ``rte`` has the accuracy and that of always predicting the more frequent class (``majority``).
    For ``ambiguous-rte`` see ``readouts.three_way.class_metrics``.
    """
    if kind == TWO_WAY:
        share = float((gold == ENTAILMENT).mean())
        metrics = {"accuracy": float((predicted == gold).mean()), "majority": max(share, 1 - share)}
    else:
        metrics = class_metrics(gold, predicted)
    return Result(
        metrics={f"{name}/{metric}": value for metric, value in metrics.items()},
        tables={f"{name}/counts.json": {"pairs": len(gold)}},
    )
