"""What a model makes of the development set, as small JSON that a report is drawn from.

The test set is not read for it. Legend: N = pairs, S = sentences, D = packed width.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sentune.corpora.schema import Corpus
from sentune.embedder.embedder import Embedder
from sentune.embedder.map import flat_map, shapes
from sentune.geometry.boxes import Boxes
from sentune.tasks import AmbiguousRte, DirectionTask, Rte, Sts, tasks_for
from sentune.tasks.base import readout_of
from sentune.tasks.direction import surplus
from sentune.tasks.pairs import Compare, Pairs, extent_direction, symmetric_similarity

VERSION = 1
PAIRS = 1_000
"""Pairs of a task that are scored."""
SHOWN = 20
"""Right and wrong pairs that are shown, of each."""
MAPPED = 60
"""Pairs of the map."""
INTERPRETED = 5
"""Sentences whose interpretations are shown."""
SEED = 0

Pair = dict[str, Any]


def behaviour(model: Embedder, dev: Sequence[Corpus]) -> dict[str, Any]:
    """Return what a model makes of pairs of the development set, drawn at random.

    The keys are ``tasks`` (scores of at most ``PAIRS`` pairs of each task, with some of the right
    and the wrong ones), ``map``, ``shapes`` and ``interpretations``; empty where the model or the
    corpora have none.

    Args:
        dev: of any kinds; those without pairs that are labelled or scored are left out.
    """
    tasks = [task for task in tasks_for(*dev) if isinstance(task, Rte | DirectionTask | Sts)]
    judged = [entry for task in tasks if (entry := _judged(model, task)) is not None]
    found: dict[str, Any] = {"version": VERSION, "tasks": judged}
    if judged:
        best, drawn = judged[0], _drawn(len(tasks[0].pairs), MAPPED)
        sides = tasks[0].pairs.first, tasks[0].pairs.second
        pairs = [(sides[0][row], sides[1][row]) for row in drawn]
        found["map"] = flat_map(model, pairs, _kinds(tasks[0], drawn))
        found["shapes"] = shapes(model, [*_each(best)])
    if isinstance(model.geometry, Boxes) and model.references is not None:
        found["interpretations"] = [_interpreted(model, text) for text in _sentences(dev)]
    return found


def _judged(model: Embedder, task: Rte | DirectionTask | Sts) -> dict[str, Any] | None:
    """Return a task's scores; None where the model cannot be judged on it."""
    rows = _drawn(len(task.pairs), PAIRS)
    sides = task.pairs.first, task.pairs.second
    pairs = Pairs(*(tuple(side[row] for row in rows) for side in sides))
    compare, by = _comparison(model, task)
    limit: float | None = 0.0
    if isinstance(task, Rte):
        limit = readout_of(model.readouts, task.name, task.kind, "threshold")
    if compare is None or limit is None:
        return None
    scores = pairs.compare(model.embed_known(pairs.sentences), compare)
    entry: dict[str, Any] = {
        "task": task.name,
        "kind": task.kind,
        "by": by,
        "pairs": len(task.pairs),
        "scores": _short(scores),
        "surplus": surplus(pairs).astype(int).tolist(),
    }
    if isinstance(task, Sts):
        gold = task.scores[rows]
        off = np.abs(_ranks(scores) - _ranks(gold))
        ordered = np.argsort(off, kind="stable")
        right, wrong = ordered[:SHOWN], ordered[::-1][:SHOWN]
        labels: Sequence[Any] = _short(gold)
        entry["gold"] = labels
    else:
        positive = task.positive[rows] if isinstance(task, Rte) else np.ones(len(rows), dtype=bool)
        entry["threshold"] = float(limit)
        hits = (scores > entry["threshold"]) == positive
        away = np.abs(scores - entry["threshold"])
        right, wrong = _surest(np.flatnonzero(hits), away), _surest(np.flatnonzero(~hits), away)
        labels = np.where(positive, "entailment", "other").tolist()
        entry["positive"] = positive.astype(int).tolist()

    def told(chosen: NDArray[np.int64]) -> list[Pair]:
        shown = _short(scores[chosen])
        return [
            {"first": pairs.first[i], "second": pairs.second[i], "label": labels[i], "score": score}
            for i, score in zip(chosen, shown, strict=True)
        ]

    return {**entry, "right": told(right), "wrong": told(wrong)}


def _comparison(model: Embedder, task: Rte | DirectionTask | Sts) -> tuple[Compare | None, str]:
    """Return how pairs of a task are scored, and its name; None where the geometry cannot."""
    geometry = model.geometry
    if isinstance(task, Sts):
        return symmetric_similarity(geometry), "similarity"
    if isinstance(task, Rte):
        return geometry.entails, "entails"
    by = readout_of(model.readouts, task.name, task.kind, "by") or "similarity"
    if geometry.symmetric:
        return None, str(by)
    return (extent_direction(geometry) if by == "extent" else geometry.direction), str(by)


def _surest(rows: NDArray[np.int64], away: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return at most ``SHOWN`` of some rows, drawn at random; the surest decisions first."""
    chosen = rows[_drawn(len(rows), SHOWN)]
    return chosen[np.argsort(-away[chosen], kind="stable")]


def _each(entry: Mapping[str, Any]) -> Iterator[Pair]:
    """Yield a right and a wrong pair of each label, in the middle of those that are shown."""
    for outcome in ("right", "wrong"):
        groups: dict[Any, list[Pair]] = {}
        for pair in entry[outcome]:
            groups.setdefault(pair["label"] if "positive" in entry else "scored", []).append(pair)
        for _, of in sorted(groups.items()):
            yield {**of[len(of) // 2], "outcome": outcome}


def _kinds(task: Rte | DirectionTask | Sts, rows: NDArray[np.int64]) -> list[str]:
    """Return what a pair is called on the map."""
    if isinstance(task, Sts):
        middle = float(np.median(task.scores))
        return ["more similar" if task.scores[row] > middle else "less similar" for row in rows]
    entails = task.positive[rows] if isinstance(task, Rte) else np.ones(len(rows), dtype=bool)
    return ["entailment" if yes else "other" for yes in entails]


def _interpreted(model: Embedder, sentence: str) -> dict[str, Any]:
    found = [vars(one) for one in model.interpretations(sentence, k=3)]
    numbers = ("coverage", "similarity")
    rounded = ({**one, **{n: _number(one[n]) for n in numbers}} for one in found)
    return {"sentence": sentence, "interpretations": [*rounded]}


def _sentences(dev: Sequence[Corpus]) -> list[str]:
    """Return sentences to interpret: of ambiguous pairs where there are, else of the first task."""
    tasks = tasks_for(*dev)
    able = (t for t in tasks if isinstance(t, AmbiguousRte | Rte | DirectionTask | Sts))
    chosen = sorted(able, key=lambda task: not isinstance(task, AmbiguousRte))[:1]
    texts = [text for task in chosen for text in dict.fromkeys(task.pairs.first)]
    return [texts[row] for row in _drawn(len(texts), INTERPRETED)]


def _drawn(count: int, most: int) -> NDArray[np.int64]:
    """Return at most so many rows of ``count``, in order."""
    return np.sort(np.random.default_rng(SEED).permutation(count)[:most])


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.stats import rankdata  # it takes a second to import

    found: NDArray[np.float64] = rankdata(values)
    return found


def _number(value: float) -> float | None:
    """Return a number to six digits; None where it is not finite, which JSON has not."""
    return float(f"{value:.6g}") if np.isfinite(value) else None


def _short(values: NDArray[np.float64]) -> list[float | None]:
    return [_number(value) for value in values.tolist()]
