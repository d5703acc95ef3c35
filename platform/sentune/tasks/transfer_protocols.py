"""How the strength of a readout's regularisation is chosen (SentEval's ``tools/validation.py``).

Legend: N = rows, J = judged rows, D = width of the features, G = strengths, F = folds.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sentune.errors import InvalidValue
from sentune.tasks.base import Given
from sentune.tasks.transfer_solver import Places, Singles, TargetType, Values, along

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

GRID = tuple(2.0**t for t in range(-2, 4))
"""C of the logistic regression where dev or inner folds choose it."""

GRID_OF_FOLDS = tuple(2.0**t for t in range(-1, 6))
"""C where folds of train choose it and another split is judged."""

RELATEDNESS_GRID = tuple(4.0**t for t in range(9))
"""C of scores, from 1 to 65536: with averaged word vectors the best was 4, with the same at length
1, whose products of coordinates are small, beyond 1000."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Rows of a split: [N, D] features and [N] targets."""

    features: Singles
    targets: Values


@dataclass(frozen=True, kw_only=True)
class ChosenStrength:
    """What was found with each strength, and which of them was chosen.

    Attributes:
        grid: the G strengths.
        scores: [G], by which the place was chosen.
        place: of the strength chosen.
        on: what chose it, for people.
        predictions: [J] with the strength chosen.
        unconverged: fits that stopped before their minimum, among all.
    """

    grid: Sequence[float]
    scores: Values
    place: int
    on: str
    predictions: Values
    unconverged: int

    @property
    def strength(self) -> float:
        """The strength itself."""
        return float(self.grid[self.place])


@dataclass(frozen=True, kw_only=True)
class Nested:
    """What the outer folds found.

    Attributes:
        predictions: [N], each row by the fit that did not see it.
        scores: [F] of the outer folds.
        inner: [F, G] mean scores of the inner folds.
        places: [F] of the strengths chosen.
        unconverged: fits that stopped before their minimum, among all.
    """

    predictions: Values
    scores: Values
    inner: Values
    places: Places
    unconverged: int


def choose(
    readout: TargetType, parts: Mapping[str, Part], folds: int, grid: Sequence[float]
) -> ChosenStrength:
    """Dev chooses where there is a test split too, else folds of train; the whole of train is
    fitted with every strength on the way."""
    train, judged = parts["train"], parts[judged_split(parts)]
    split = [] if by_dev(parts) else list(readout.folds(train.targets, folds))
    subsets = [np.arange(len(train.targets)), *(rows for rows, _ in split)]
    held_out = [_at(train, rows) for _, rows in split] or [parts["dev"]]
    scores, predictions, unconverged = [], [], 0
    for models, stopped in along(train.features, readout.examples(train.targets), subsets, grid):
        tried = zip(held_out, models[1:] or models, strict=True)
        scores.append(np.mean([_score(readout, part, model) for part, model in tried]))
        predictions.append(readout.predict(models[0], judged.features))
        unconverged += stopped
    place = int(best(np.array(scores)))
    return ChosenStrength(
        grid=grid,
        scores=np.array(scores),
        place=place,
        on=f"{folds} folds of train" if split else "dev",
        predictions=predictions[place],
        unconverged=unconverged,
    )


def nested(readout: TargetType, rows: Part, folds: int, grid: Sequence[float]) -> Nested:
    """Outer folds are judged; as many inner folds of their training rows choose their strength.

    Inner folds are shuffled with the same seed as outer ones.
    """
    outer = list(readout.folds(rows.targets, folds))
    inner = [
        [(seen[a], seen[b]) for a, b in readout.folds(rows.targets[seen], folds)]
        for seen, _ in outer
    ]
    pairs = [*outer, *(pair for group in inner for pair in group)]
    scores, predictions, unconverged = [], [], 0
    examples = readout.examples(rows.targets)
    for models, stopped in along(rows.features, examples, [seen for seen, _ in pairs], grid):
        tried = zip(pairs, models, strict=True)
        scores.append([_score(readout, _at(rows, unseen), model) for (_, unseen), model in tried])
        predictions.append(
            [
                readout.predict(model, rows.features[unseen])
                for (_, unseen), model in zip(outer, models[:folds], strict=True)
            ]
        )
        unconverged += stopped
    table = np.array(scores).T
    means = table[folds:].reshape(folds, folds, -1).mean(axis=1)
    places = best(means)
    chosen = np.empty_like(rows.targets)
    for fold, ((_, unseen), place) in enumerate(zip(outer, places, strict=True)):
        chosen[unseen] = predictions[place][fold]
    return Nested(
        predictions=chosen,
        scores=table[np.arange(folds), places],
        inner=means,
        places=places,
        unconverged=unconverged,
    )


def best(scores: Values) -> Places:
    """[..., G] -> [...] places of the strengths that score best; of those equal to 0.01 %, as
    SentEval rounds, the first."""
    places: Places = np.argmax(np.round(100 * scores, 2), axis=-1)
    return places


def by_dev(splits: Container[str]) -> bool:
    """Return whether dev chooses the strength, not folds of train."""
    return "dev" in splits and "test" in splits


def judged_split(splits: Container[str]) -> str:
    """``test``, or where there is none ``dev``."""
    return "test" if "test" in splits else "dev"


def grid_of(readouts: Given, name: str, default: Sequence[float]) -> Sequence[float]:
    """Return the strength among the readouts alone, else the default grid."""
    given = (readouts or {}).get(f"{name}/C")
    if given is None:
        return default
    if not isinstance(given, int | float) or not 0 < given < float("inf"):
        raise InvalidValue(f"{name}/C", given, "use a positive number")
    return (float(given),)


def _at(part: Part, rows: Places) -> Part:
    return Part(features=part.features[rows], targets=part.targets[rows])


def _score(readout: TargetType, part: Part, model: LogisticRegression) -> float:
    return readout.score(readout.predict(model, part.features), part.targets)
