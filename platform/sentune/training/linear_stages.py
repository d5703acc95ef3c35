"""LINEAR from corpora to results: two-way, and for ambiguity in two stages (GumbelCSE section 4.4).

Legend: N = pairs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import f1_score

from sentune.corpora.formats import read
from sentune.corpora.schema import Corpus, Kind
from sentune.encoders import prepare
from sentune.errors import CorpusError
from sentune.methods.linear import PairClassifier, PairTokenizer
from sentune.readouts.three_way import BOTH, CLASSES, ENTAILMENT, NON_ENTAILMENT
from sentune.tasks.base import Result
from sentune.training.linear import (
    Classes,
    ClassifiedPairs,
    LinearSettings,
    Say,
    build,
    fit,
    predict,
)

TWO_WAY, THREE_WAY = "rte", "ambiguous-rte"
KINDS = {TWO_WAY: Kind.LABELLED_PAIRS, THREE_WAY: Kind.SEVERAL_LABELS}


@dataclass(frozen=True, kw_only=True)
class LinearRun:
    """What is trained on what and judged on what.

    Attributes:
        corpus: of triplets, the first stage's.
        encoder: Hugging Face name, folder, or ``builtin:tiny``.
        tests: (task, corpus) pairs, each task one of ``KINDS``.
        ambiguous: pairs of several labels, the second stage's; without it there is one stage.
        limit: rows of each corpus at most.
        max_examples: pairs of the first stage at most; a triplet makes two.
    """

    corpus: str
    encoder: str
    tests: tuple[tuple[str, str], ...]
    ambiguous: str | None = None
    epochs: int = 1
    second_epochs: int = 3
    limit: int | None = None
    max_examples: int | None = None
    settings: LinearSettings = field(default_factory=LinearSettings)


def run_linear(run: LinearRun, say: Say | None = None) -> Result:
    """Train and judge: ``rte`` after the first stage, ``ambiguous-rte`` in the end.

    In the second stage a new layer of three classes and the encoder are fine-tuned on all of
    ``ambiguous``: none of it is kept to choose the number of epochs. Without a second stage
    ``ambiguous-rte`` is answered in two classes, never by both.

    Raises:
        InvalidValue: a corpus or encoder that there is not, or pairs too long for the encoder.
        CorpusError: a corpus that cannot be read.
        TrialFailed: the training cannot go on.
    """
    first = two_way_examples(read(run.corpus, Kind.TRIPLETS, limit=run.limit))
    second = None
    if run.ambiguous is not None:
        second = three_way_examples(read(run.ambiguous, Kind.SEVERAL_LABELS, limit=run.limit))
    tests = [_Test.read(*named, run.limit) for named in _named(run.tests)]
    model, tokenizer = _untrained(run, [first] if second is None else [first, second])
    most = run.max_examples
    fit(model, tokenizer, first, run.settings, epochs=run.epochs, max_examples=most, say=say)
    result = Result()
    for test in tests:
        if test.kind == TWO_WAY:
            result.update(test.judge(model, tokenizer, run.settings))
    if second is not None:
        model.renew(len(CLASSES))
        fit(model, tokenizer, second, run.settings, epochs=run.second_epochs, say=say)
    for test in tests:
        if test.kind == THREE_WAY:
            result.update(test.judge(model, tokenizer, run.settings))
    return result


@dataclass(frozen=True)
class _Test:
    kind: str
    name: str
    examples: ClassifiedPairs

    @classmethod
    def read(cls, kind: str, name: str, spec: str, limit: int | None) -> _Test:
        corpus = read(spec, KINDS[kind], limit=limit)
        made = two_way_examples if kind == TWO_WAY else three_way_examples
        return cls(kind, name, made(corpus))

    def judge(
        self, model: PairClassifier, tokenizer: PairTokenizer, settings: LinearSettings
    ) -> Result:
        answers = predict(model, tokenizer, self.examples.pairs, settings.max_length)
        judge = judge_two_way if self.kind == TWO_WAY else judge_three_way
        return judge(self.name, answers, self.examples.classes)


def _untrained(
    run: LinearRun, stages: Sequence[ClassifiedPairs]
) -> tuple[PairClassifier, PairTokenizer]:
    """The model and its tokenizer; a built-in encoder learns its word pieces from all stages."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    texts = (text for stage in stages for pair in stage.pairs for text in pair)
    with tempfile.TemporaryDirectory() as cache:
        folder = prepare(run.encoder, texts, Path(cache))
        return build(folder, run.settings, device), PairTokenizer(folder)


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
        named = [(label,) for label in columns["label"]]
        return _examples(columns["premise"], columns["hypothesis"], named)
    raise CorpusError(corpus.spec, f"triplets or labelled pairs are needed, not {corpus.kind}")


def three_way_examples(corpus: Corpus) -> ClassifiedPairs:
    """Pairs in three classes: entailment, non-entailment, or both where the labels say both.

    Raises:
        CorpusError: the corpus has no pairs of several labels.
    """
    if corpus.kind is not Kind.SEVERAL_LABELS:
        raise CorpusError(corpus.spec, f"pairs of several labels are needed, not {corpus.kind}")
    columns = corpus.table.to_pydict()
    return _examples(columns["premise"], columns["hypothesis"], columns["labels"])


def judge_two_way(name: str, predicted: Classes, gold: Classes) -> Result:
    """Accuracy of entailment or not, and of always saying the commoner class (``majority``)."""
    share = float((gold == ENTAILMENT).mean())
    metrics = {"accuracy": float((predicted == gold).mean()), "majority": max(share, 1 - share)}
    return _result(name, metrics, len(gold))


def judge_three_way(name: str, predicted: Classes, gold: Classes) -> Result:
    """F1 of each class, their mean and the accuracy (GumbelCSE section 4.4, Table 3).

    The F1 of a class that is neither predicted nor there is 0.
    """
    labels = [ENTAILMENT, NON_ENTAILMENT, BOTH]
    each = f1_score(gold, predicted, labels=labels, average=None, zero_division=0.0)
    metrics = {f"f1_{name}": float(f1) for name, f1 in zip(CLASSES, each, strict=True)}
    metrics |= {"macro_f1": float(each.mean()), "accuracy": float((predicted == gold).mean())}
    return _result(name, metrics, len(gold))


def _named(tests: Sequence[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """(task, name, corpus): ``rte``, then ``rte-sick``, ``rte-sick-2`` as other tasks are named."""
    named: list[tuple[str, str, str]] = []
    for kind, spec in tests:
        taken = {name for _, name, _ in named}
        base = f"{kind}-{spec.partition(':')[0]}"
        names = [kind, base, *(f"{base}-{number}" for number in range(2, len(tests) + 1))]
        named.append((kind, next(name for name in names if name not in taken), spec))
    return named


def _examples(
    premises: Sequence[str], hypotheses: Sequence[str], labels: Sequence[Sequence[str]]
) -> ClassifiedPairs:
    classes = np.array([_class(set(found)) for found in labels], dtype=np.int64)
    return ClassifiedPairs(list(zip(premises, hypotheses, strict=True)), classes)


def _class(labels: set[str]) -> int:
    if "entailment" not in labels:
        return NON_ENTAILMENT
    return ENTAILMENT if len(labels) == 1 else BOTH


def _result(name: str, metrics: dict[str, float], pairs: int) -> Result:
    return Result(
        metrics={f"{name}/{metric}": value for metric, value in metrics.items()},
        tables={f"{name}/counts.json": {"pairs": pairs}},
    )
