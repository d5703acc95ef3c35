"""Transfer tasks: prediction of labels or scores from embeddings by linear models (SentEval)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sentune.corpora.formats import senteval
from sentune.corpora.schema import Corpus, Kind
from sentune.errors import CorpusError, InvalidValue
from sentune.tasks.base import Given, Model, Result, finite, require, under
from sentune.tasks.sts import add_correlations
from sentune.tasks.transfer_solver import (
    GRID,
    GRID_OF_FOLDS,
    RELATEDNESS_GRID,
    ChosenStrength,
    Labels,
    Part,
    Places,
    Scores,
    Singles,
    Values,
    by_dev,
    choose,
    grid_of,
    judged_split,
    nested,
)

TRANSFER: dict[str, Kind] = {name: task.kind for name, task in senteval.TASKS.items()}
"""SentEval's transfer tasks: name -> kind of corpus."""

FOLDS = 10
"""Number of outer and inner folds in SentEval."""

WHOLE = "whole"  # the split of a corpus without splits

NO_TEST = (
    "the corpus has no test rows: judged on {}, with the regularisation chosen by "
    "cross-validation on train"
)


class Transfer:
    """Logistic regression of labels on frozen embeddings (Conneau & Kiela 2018, section 3).

    The splits of the corpus decide the protocol, as in SentEval's ``tools/validation.py``:

    - no splits (MR, CR, SUBJ, MPQA): nested cross-validation; inner folds choose the C of each
      outer fold;
    - train and test (TREC, MRPC): C is chosen by cross-validation on train;
    - train, dev and test (SST2, SICK-E): C is chosen on dev;
    - train and dev, without test: C is chosen by cross-validation on train, and the metrics are
      those on dev;
    - train alone: C is chosen by cross-validation on train, which also gives the metrics. Studies
      use the last two, as they do not read test; ``NAME/test`` among the skipped says so.

    Metrics: ``accuracy``; ``dev_accuracy``, by which C was chosen; and for pairs with two classes
    (MRPC) ``f1`` of the class that is last in the alphabet. The readout ``C`` is the inverse
    regularisation strength; a given one is applied without a search. Tables: ``counts.json``, and
    ``regularisation.json`` with the dev accuracy by C.

    The regression is scikit-learn's ``LogisticRegression``, with a softmax over the classes and an
    unpenalised intercept. SentEval's (liblinear) is one-vs-rest with a penalised intercept.

    Args:
        folds: number of outer and inner folds, 10 in SentEval.

    Raises:
        CorpusError: the corpus is of another kind or lacks a split, or the training rows have a
            single label, lack a label, or have fewer rows of a label than folds.
        InvalidValue: there are fewer than 2 folds.
    """

    kind = "transfer"

    def __init__(self, corpus: Corpus, name: str = kind, *, folds: int = FOLDS) -> None:
        _check(corpus, Kind.CLASSIFIED, name, folds)
        self.name, self.folds = name, folds
        self.labels, codes = np.unique(corpus.table["label"].to_pylist(), return_inverse=True)
        self.rows = TransferRows(corpus, ("text", "second"), codes.astype(np.float64))
        self._check_labels(corpus)

    def run(self, model: Model, readouts: Given = None) -> Result:
        """Encode each distinct sentence once, choose C and return the metrics.

        Raises:
            TrialFailed: an embedding is not finite.
            InvalidValue: the C among the readouts is not a positive number.
        """
        parts = self.rows.parts(model)
        return self._nested(parts, readouts) if WHOLE in parts else self._split(parts, readouts)

    def majority(self) -> float:
        """Return the accuracy of always predicting the most frequent label of the training rows.

        Without splits, it is that label's share of all rows.
        """
        whole = WHOLE in self.rows.places
        judged = self.rows.of(WHOLE if whole else judged_split(self.rows.places))
        return float(np.mean(judged == self._train_counts().argmax()))

    def _nested(self, parts: Mapping[str, Part], readouts: Given) -> Result:
        grid = grid_of(readouts, self.name, GRID)
        found, scores, predictions = nested(Labels(), parts[WHOLE], self.folds, grid)
        table = {
            "C": list(grid),
            "dev_accuracy": np.mean([fold.scores for fold in found], axis=0).tolist(),
            "chosen": [fold.strength for fold in found],
            "accuracy": scores,
            "chosen_on": f"{self.folds} inner folds of each outer fold's training rows",
            "judged_on": f"{self.folds} outer folds",
            "unconverged": sum(fold.unconverged for fold in found),
        }
        chosen = np.mean([fold.scores[fold.place] for fold in found])
        metrics = {"accuracy": float(np.mean(scores)), "dev_accuracy": float(chosen)}
        tables = {"counts.json": {"pairs": len(predictions)}, "regularisation.json": table}
        result = Result(metrics=under(self.name, metrics), tables=under(self.name, tables))
        self._add_f1(result, parts[WHOLE].targets, predictions)
        return result

    def _split(self, parts: Mapping[str, Part], readouts: Given) -> Result:
        grid = grid_of(readouts, self.name, GRID if by_dev(parts) else GRID_OF_FOLDS)
        chosen = choose(Labels(), parts, self.folds, grid)
        gold = parts[judged_split(parts)].targets
        result = _split_result(self.name, parts, chosen, Labels.metric)
        result.metrics[f"{self.name}/accuracy"] = float(np.mean(chosen.predictions == gold))
        self._add_f1(result, gold, chosen.predictions)
        return result

    def _add_f1(self, result: Result, gold: Values, predictions: Values) -> None:
        if self.rows.second is not None and len(self.labels) == 2:
            from sklearn.metrics import f1_score  # takes a second to import

            result.metrics[f"{self.name}/f1"] = float(f1_score(gold, predictions, zero_division=0))

    def _train_counts(self) -> Places:
        """Return the number of training rows of each label."""
        train = self.rows.of(WHOLE if WHOLE in self.rows.places else "train")
        return np.bincount(train.astype(np.int64), minlength=len(self.labels))

    def _check_labels(self, corpus: Corpus) -> None:
        places, counts = self.rows.places, self._train_counts()
        seen = ", ".join(f"{n} {label}" for label, n in zip(self.labels, counts, strict=True))
        # the training rows of an outer fold are split into folds once more
        smallest = counts.min() - (-(-counts.min() // self.folds) if WHOLE in places else 0)
        if counts.sum() in counts:
            reason = "the training rows all have one label; rows=A:B takes rows in the files' order"
            raise CorpusError(corpus.spec, f"{reason} ({seen})")
        if not counts.all():
            missing = ", ".join(self.labels[counts == 0])
            raise CorpusError(corpus.spec, f"no training row is labelled {missing}")
        if not by_dev(places) and smallest < self.folds:
            reason = f"{self.folds} folds need more rows of each label than {seen}"
            raise CorpusError(corpus.spec, reason)


class TransferRelatedness:
    """Relatedness of pairs, predicted as the expectation of a distribution over integer scores.

    The distribution is a softmax of [|u - v|, u * v] (Tai, Socher & Manning 2015, section 4.2; see
    ``Scores``), with a penalty instead of SentEval's early stopping. C is chosen by Pearson's r on
    dev, or without dev by cross-validation on train, and the metrics are those on test. Without
    test, C is chosen by cross-validation on train, and the metrics are those on dev or, without
    dev, of the cross-validation; ``NAME/test`` among the skipped says so.

    Metrics: ``pearson``, ``spearman``, ``mse`` (squared units of the score), and ``dev_pearson``,
    by which C was chosen. An undefined correlation counts as 0, with the reason among the skipped.
    The readout ``C`` is the inverse regularisation strength; a given one is applied without a
    search. Tables: ``counts.json``, and ``regularisation.json`` with r by C.

    Raises:
        CorpusError: the corpus is of another kind or lacks a split, the scores of a split are all
            the same, or train has fewer than two rows per fold.
        InvalidValue: there are fewer than 2 folds.
    """

    kind = "relatedness"

    def __init__(self, corpus: Corpus, name: str = kind, *, folds: int = FOLDS) -> None:
        _check(corpus, Kind.RELATED, name, folds)
        self.name, self.folds = name, folds
        scores = np.asarray(corpus.table["score"].to_pylist(), dtype=np.float64)
        self.rows = TransferRows(corpus, ("sentence1", "sentence2"), scores)
        self._check_scores(corpus)

    def run(self, model: Model, readouts: Given = None) -> Result:
        """Choose C and return the metrics; see ``Transfer.run``."""
        parts = self.rows.parts(model)
        grid = grid_of(readouts, self.name, RELATEDNESS_GRID)
        chosen = choose(Scores(), parts, self.folds, grid)
        result = _split_result(self.name, parts, chosen, Scores.metric)
        gold = parts[judged_split(parts)].targets
        if add_correlations(result, f"{self.name}/", chosen.predictions, gold):
            reason = "all predictions are the same: undefined correlations count as 0"
            result.skipped[self.name] = reason
        result.metrics[f"{self.name}/mse"] = float(np.mean((chosen.predictions - gold) ** 2))
        return result

    def _check_scores(self, corpus: Corpus) -> None:
        places = self.rows.places
        if WHOLE in places:
            raise CorpusError(corpus.spec, f"{self.name} needs rows of a train split")
        for split in places:
            if np.ptp(self.rows.of(split)) == 0:
                raise CorpusError(corpus.spec, f"the scores of {split} are all the same")
        if not by_dev(places) and len(places["train"]) < 2 * self.folds:
            reason = f"{self.folds} folds need {2 * self.folds} rows of train"
            raise CorpusError(corpus.spec, f"{reason}, there are {len(places['train'])}")
        train = self.rows.of("train")
        values, counts = np.unique(train, return_counts=True)
        if not by_dev(places) and len(train) - counts.max() <= -(-len(train) // self.folds):
            reason = f"{counts.max()} of {len(train)} scores of train are {values[counts.argmax()]}"
            raise CorpusError(corpus.spec, f"{reason}, so a fold may be left with a single score")


def _check(corpus: Corpus, kind: Kind, name: str, folds: int) -> None:
    require(corpus, kind, name)
    if folds < 2:
        raise InvalidValue("folds", folds, "use at least 2")


def _split_result(
    name: str, parts: Mapping[str, Part], chosen: ChosenStrength, metric: str
) -> Result:
    """Return readout, dev score and tables of a task with splits; ``metric`` chose C."""
    judged = judged_split(parts)
    judged_on = chosen.on if judged == "train" else judged
    chosen_on = parts["dev" if chosen.on == "dev" else "train"]
    counts = {"pairs": len(parts[judged].targets), f"dev_{metric}": len(chosen_on.targets)}
    table = {
        "C": list(chosen.grid),
        f"dev_{metric}": chosen.scores.tolist(),
        "chosen": chosen.strength,
        "chosen_on": chosen.on,
        "judged_on": judged_on,
        "unconverged": chosen.unconverged,
    }
    return Result(
        metrics={f"{name}/dev_{metric}": float(chosen.scores[chosen.place])},
        readouts={f"{name}/C": chosen.strength},
        tables=under(name, {"counts.json": counts, "regularisation.json": table}),
        skipped={f"{name}/test": NO_TEST.format(judged_on)} if judged != "test" else {},
    )


class TransferRows:
    """Sentences or pairs of a transfer task, their targets and splits.

    The rows of a split are sorted by numbers of words, then by target, as SentEval does before it
    makes folds.

    Attributes:
        first: first sentences, N.
        second: second sentences, N, or None for single sentences.
        targets: classes or scores, [N].
        places: split -> its rows; ``WHOLE`` alone if there are no splits.

    Raises:
        CorpusError: only some rows are pairs, only some rows have a split, or there is no train
            split.
    """

    def __init__(self, corpus: Corpus, columns: tuple[str, str], targets: Values) -> None:
        self.targets = targets
        self.first, second = (corpus.table[column].to_pylist() for column in columns)
        single = [sentence is None for sentence in second]
        if any(single) and not all(single):
            reason = f"{sum(single)} of {len(single)} rows are single sentences, the others pairs"
            raise CorpusError(corpus.spec, f"{reason}; give one or the other")
        self.second: Sequence[str] | None = None if all(single) else second
        sides = [self.first] if self.second is None else [self.first, self.second]
        words = [np.array([len(sentence.split()) for sentence in side]) for side in sides]
        order = np.lexsort([targets, *reversed(words)])
        splits = np.array([split or WHOLE for split in corpus.table["split"].to_pylist()])
        names = dict.fromkeys(splits.tolist())
        self.places: dict[str, Places] = {s: order[splits[order] == s] for s in names}
        there = ", ".join(f"{len(rows)} of {split}" for split, rows in self.places.items())
        if WHOLE in names and len(names) > 1:
            reason = f"some rows have no split: {there}; give all of them one"
            raise CorpusError(corpus.spec, reason)
        if WHOLE not in names and "train" not in names:
            raise CorpusError(corpus.spec, f"the rows are {there}; there must be rows of train")

    def of(self, split: str) -> Values:
        """Return the targets of a split."""
        return self.targets[self.places[split]]

    def parts(self, model: Model) -> dict[str, Part]:
        """Return the rows of each split; the model encodes each distinct sentence once."""
        whole = Part(features=self._features(model), targets=self.targets)
        return {split: whole.at(places) for split, places in self.places.items()}

    def _features(self, model: Model) -> Singles:
        """Return features of sentences, [N, D], or pairs, |u - v| and u * v (SentEval), [N, 2D]."""
        row = {s: i for i, s in enumerate(dict.fromkeys([*self.first, *(self.second or ())]))}
        encode = model.features or model.embed
        encoded = finite(encode(list(row)), list(row)).detach().float().cpu().numpy()
        u: Singles = encoded[[row[s] for s in self.first]]
        if self.second is None:
            return u
        v = encoded[[row[s] for s in self.second]]
        return np.concatenate([np.abs(u - v), u * v], axis=1)
