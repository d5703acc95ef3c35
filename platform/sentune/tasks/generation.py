"""Generation: sentences that a model decodes from operations on embeddings.

InterSent section 3.4 and Table 1. Legend: N = items of an operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from sentune.corpora.schema import OPERATIONS, PAIR_OPERATIONS, Corpus, Kind
from sentune.errors import InvalidValue, TrialFailed
from sentune.tasks.base import Given, Model, Result, free_name, require

ROUGE = ("rouge1", "rouge2", "rougeL")
EXAMPLES = 8
"""Number of items of each operation in ``generation/examples.json``, the first of the corpus."""

INTERPRETED = ("fusion", "difference", "compression")
"""Operations that the means are over; Table 1 has no reconstruction."""


@dataclass(frozen=True, kw_only=True)
class Items:
    """The N items of one operation in one corpus.

    Attributes:
        name: first part of the metrics' names: the operation, or ``compression-gigaword`` for a
            second corpus.
        seconds: second sentences; None for an operation on single sentences.
        targets: reference texts.
    """

    name: str
    operation: str
    firsts: list[str]
    seconds: list[str] | None
    targets: list[str]

    @property
    def inputs(self) -> list[str]:
        """Return the copied inputs: both sentences for a fusion, the first one otherwise."""
        if self.operation != "fusion" or self.seconds is None:
            return self.firsts
        return [f"{a} {b}" for a, b in zip(self.firsts, self.seconds, strict=True)]

    def examples(self, generated: Sequence[str], rouge1: Sequence[float]) -> list[dict[str, Any]]:
        """Return the first items with the generated texts and their ROUGE-1."""
        seconds: Sequence[str | None] = self.seconds or [None] * len(self.firsts)
        columns = zip(self.firsts, seconds, self.targets, generated, rouge1, strict=True)
        names = ("first", "second", "target", "generated", "rouge1")
        rows = [dict(zip(names, row, strict=True)) for row in islice(columns, EXAMPLES)]
        return [{"operation": self.name, **row} for row in rows]


class Generation:
    """ROUGE of the sentences that a model decodes, for each operation of each corpus.

    Metrics: ``OPERATION/rouge1``, ``/rouge2`` and ``/rougeL``, the mean F-measures over items (see
    ``f_measures``). Further corpora with the same operation add their format to the name:
    ``compression-gigaword``, then ``compression-gigaword-2``. ``generation/rouge1`` and so on are
    the unweighted means over all of these except reconstruction, as in InterSent's Tables 1, 5, 8.

    Args:
        corpora: corpora of operations.
        name: first part of the names of the means.

    Raises:
        CorpusError: a corpus is of another kind.
        InvalidValue: no corpus is given.
    """

    kind = "generation"

    def __init__(self, corpora: Sequence[Corpus], name: str = kind) -> None:
        if not corpora:
            raise InvalidValue("corpora", list(corpora), "give at least one of operations")
        self.name = name
        self.items: list[Items] = []
        for corpus in corpora:
            self.items += _items(corpus, {items.name for items in self.items})

    def run(self, model: Model, readouts: Given = None) -> Result:
        """Generate and return the scores, all skipped without a decoder; there is no readout.

        Raises:
            TrialFailed: the model returns another number of sentences.
        """
        if model.generate is None:
            names = (self.name, *(items.name for items in self.items))
            return Result(skipped=dict.fromkeys(names, "the model has no decoder"))
        found, examples = Result(), []
        for items in self.items:
            generated = model.generate(items.operation, items.firsts, items.seconds)
            if len(generated) != len(items.targets):
                reason = f"{len(generated)} sentences for {len(items.targets)} of {items.name}"
                raise TrialFailed(f"the model generated {reason}")
            scores = f_measures(items.targets, generated)
            found.metrics |= _named(items.name, "", scores.mean(axis=0))
            found.tables[f"{items.name}/counts.json"] = {"pairs": len(items.targets)}
            examples += items.examples(generated, scores[:, 0].tolist())
        found.tables[f"{self.name}/examples.json"] = examples
        means = self._means(found.metrics, self.items, "")
        found.metrics |= means
        if not means:
            found.skipped[self.name] = f"no corpus has one of {', '.join(INTERPRETED)}"
        return found

    def baselines(self) -> dict[str, float]:
        """Return the scores of copying the input, ``OPERATION/copy_rouge1`` and so on.

        Operations whose inputs all equal their targets are left out, also from the mean
        ``generation/copy_rouge1``.
        """
        told = [items for items in self.items if items.inputs != items.targets]
        found: dict[str, float] = {}
        for items in told:
            scores = f_measures(items.targets, items.inputs)
            found |= _named(items.name, "copy_", scores.mean(axis=0))
        return found | self._means(found, told, "copy_")

    def _means(
        self, metrics: Mapping[str, float], items: Sequence[Items], prefix: str
    ) -> dict[str, float]:
        names = [part.name for part in items if part.operation in INTERPRETED]
        if not names:
            return {}
        means = [
            sum(metrics[f"{n}/{prefix}{rouge}"] for n in names) / len(names) for rouge in ROUGE
        ]
        return _named(self.name, prefix, means)


def f_measures(targets: Sequence[str], generated: Sequence[str]) -> NDArray[np.float64]:
    """Return rouge-score's F-measures of each generated text, [N, 3], fractions from 0 to 1.

    The columns are those of ``ROUGE``. Tokens are lower-case runs of a-z and 0-9, without stemming.
    The longest common subsequence of ROUGE-L is over the whole text. A text without tokens, or for
    ROUGE-2 with a single token, scores 0.

    Raises:
        InvalidValue: the numbers of texts differ.
    """
    if len(targets) != len(generated):
        fix = f"give one for each of {len(targets)} targets"
        raise InvalidValue("generated texts", len(generated), fix)
    from rouge_score.rouge_scorer import RougeScorer  # imported here because it loads nltk

    scorer = RougeScorer(list(ROUGE), use_stemmer=False)
    scores = [scorer.score(t, g) for t, g in zip(targets, generated, strict=True)]
    rows = [[score[name].fmeasure for name in ROUGE] for score in scores]
    return np.array(rows, dtype=np.float64).reshape(-1, len(ROUGE))


def _named(name: str, prefix: str, values: Iterable[float]) -> dict[str, float]:
    return {f"{name}/{prefix}{rouge}": float(v) for rouge, v in zip(ROUGE, values, strict=True)}


def _items(corpus: Corpus, taken: set[str]) -> Iterator[Items]:
    """Yield a corpus's items by operation, in the order of ``OPERATIONS``."""
    require(corpus, Kind.OPERATIONS, "generation")
    for operation in OPERATIONS:
        rows = corpus.table.filter(pc.field("operation") == operation)
        if rows.num_rows:
            names = operation, f"{operation}-{corpus.spec.partition(':')[0]}"
            yield Items(
                name=free_name(names, taken),
                operation=operation,
                firsts=rows["first"].to_pylist(),
                seconds=rows["second"].to_pylist() if operation in PAIR_OPERATIONS else None,
                targets=rows["target"].to_pylist(),
            )
