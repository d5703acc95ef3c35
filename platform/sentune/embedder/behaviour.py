"""Summary of a model's behaviour on the development set, as JSON for the report.

The test set is not used. Legend: N = pairs, S = sentences, D = packed width, d = dimensions of the
space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from torch import Tensor

from sentune.corpora.schema import Corpus
from sentune.embedder.embedder import Embedder
from sentune.geometry import gaussians
from sentune.geometry.base import Geometry
from sentune.geometry.boxes import Boxes
from sentune.geometry.gaussians import Gaussians
from sentune.tasks import AmbiguousRte, DirectionTask, Rte, Sts, tasks_for
from sentune.tasks.base import readout_of
from sentune.tasks.direction import surplus
from sentune.tasks.pairs import Compare, Pairs, extent_direction, symmetric_similarity

VERSION = 1
PAIRS = 1_000
"""Largest number of scored pairs of a task."""
SHOWN = 20
"""Largest number of correct and of incorrect pairs with their sentences."""
MAPPED = 60
"""Largest number of pairs in the map."""
INTERPRETED = 5
"""Largest number of sentences with interpretations."""
SEED = 0

Pair = dict[str, Any]
PairTask: TypeAlias = Rte | DirectionTask | Sts


def behaviour(model: Embedder, dev: Sequence[Corpus]) -> dict[str, Any]:
    """Return a model's scores, map and interpretations of random pairs of the development set.

    The keys are ``tasks`` (scores of at most ``PAIRS`` pairs of each task, with some correct and
    incorrect pairs) and, if the model and the corpora have them, ``map``, ``shapes`` and
    ``interpretations``. All values are JSON types.

    Args:
        dev: development corpora; those without labelled or scored pairs are left out.
    """
    tasks = [task for task in tasks_for(*dev) if isinstance(task, PairTask)]
    judged = [entry for task in tasks if (entry := _judged(model, task)) is not None]
    found: dict[str, Any] = {"version": VERSION, "tasks": judged}
    if judged:
        found["map"] = _flat_map(model, tasks[0], _drawn(len(tasks[0].pairs), MAPPED))
        found["shapes"] = _shapes(model, _each(judged[0]))
    if isinstance(model.geometry, Boxes) and model.references is not None:
        found["interpretations"] = [_interpreted(model, text) for text in _sentences(dev)]
    return found


def _judged(model: Embedder, task: PairTask) -> dict[str, Any] | None:
    """Return the scores of a task's pairs; None if the model cannot do the task."""
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
        # not rounded, because each is compared with the threshold
        "scores": [score if np.isfinite(score) else None for score in scores.tolist()],
        "surplus": surplus(pairs).astype(int).tolist(),
    }
    if isinstance(task, Sts):
        off = np.abs(scipy.stats.rankdata(scores) - scipy.stats.rankdata(task.scores[rows]))
        ordered = np.argsort(off, kind="stable")
        right, wrong = ordered[:SHOWN], ordered[::-1][:SHOWN]
        labels: Sequence[Any] = _rounded(task.scores[rows].tolist(), 6)
        entry["gold"] = labels
    else:
        positive = task.positive[rows]
        hits, away = (scores > limit) == positive, np.abs(scores - limit)
        right, wrong = _surest(np.flatnonzero(hits), away), _surest(np.flatnonzero(~hits), away)
        labels = np.where(positive, "entailment", "other").tolist()
        entry |= {"threshold": float(limit), "positive": positive.astype(int).tolist()}

    def told(chosen: NDArray[np.int64]) -> list[Pair]:
        shown = _rounded(scores[chosen].tolist(), 6)
        return [
            {"first": pairs.first[i], "second": pairs.second[i], "label": labels[i], "score": score}
            for i, score in zip(chosen, shown, strict=True)
        ]

    return {**entry, "right": told(right), "wrong": told(wrong)}


def _comparison(model: Embedder, task: PairTask) -> tuple[Compare | None, str]:
    """Return the score of a task's pairs and its name; None if the geometry does not have it."""
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
    """Return at most ``SHOWN`` random rows, the most confident decisions first."""
    chosen = rows[_drawn(len(rows), SHOWN)]
    return chosen[np.argsort(-away[chosen], kind="stable")]


def _each(entry: Mapping[str, Any]) -> Iterator[Pair]:
    """Yield a correct and an incorrect pair of each label, of medium confidence."""
    for outcome in ("right", "wrong"):
        groups: dict[Any, list[Pair]] = {}
        for pair in entry[outcome]:
            groups.setdefault(pair["label"] if "positive" in entry else "scored", []).append(pair)
        for _, of in sorted(groups.items()):
            yield {**of[len(of) // 2], "outcome": outcome}


def _interpreted(model: Embedder, sentence: str) -> dict[str, Any]:
    found = [vars(one) for one in model.interpretations(sentence, k=3)]
    numbers = ("coverage", "similarity")
    rounded = [{**one, **{n: _rounded(one[n], 6) for n in numbers}} for one in found]
    return {"sentence": sentence, "interpretations": rounded}


def _sentences(dev: Sequence[Corpus]) -> list[str]:
    """Return sentences to interpret, from ambiguous pairs if there are any, else the first task."""
    able = (task for task in tasks_for(*dev) if isinstance(task, AmbiguousRte | PairTask))
    chosen = sorted(able, key=lambda task: not isinstance(task, AmbiguousRte))[:1]
    texts = [text for task in chosen for text in dict.fromkeys(task.pairs.first)]
    return [texts[row] for row in _drawn(len(texts), INTERPRETED)]


def _flat_map(model: Embedder, task: PairTask, rows: NDArray[np.int64]) -> dict[str, Any]:
    """Return the first two principal components of the centres of sentence pairs.

    ``pairs`` has the kind, both sentences and their coordinates of each pair; ``explained`` is the
    share of the variance of each component.
    """
    if isinstance(task, Sts):
        similar = task.scores[rows] > np.median(task.scores)
        kinds = np.where(similar, "more similar", "less similar")
    else:
        kinds = np.where(task.positive[rows], "entailment", "other")
    pairs = [(task.pairs.first[row], task.pairs.second[row]) for row in rows]
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    centres = _region(model.geometry, model.embed_known(texts))[0].double().cpu()
    centred = centres - centres.mean(0)
    _, spread, axes = torch.linalg.svd(centred, full_matrices=False)
    flat = torch.zeros(len(texts), 2, dtype=torch.float64)
    width = min(2, len(axes))
    flat[:, :width] = centred @ axes[:width].T
    share = spread.square() / spread.square().sum().clamp(min=1e-30)
    place = dict(zip(texts, _rounded(flat.tolist(), 5), strict=True))
    return {
        "explained": _rounded(share[:2].tolist(), 5),
        "pairs": [
            {"kind": kind, "first": a, "second": b, "places": [place[a], place[b]]}
            for kind, (a, b) in zip(kinds.tolist(), pairs, strict=True)
        ],
    }


def _shapes(model: Embedder, pairs: Iterator[Pair]) -> list[dict[str, Any]]:
    """Return the boxes or Gaussians of pairs in two dimensions of the space; empty for points.

    The dimensions are those with the largest distance of the centres relative to the sizes of the
    regions. The projections are exact: ``centre``, and ``reach``, the half side length of a box or
    the standard deviation of a Gaussian.
    """
    if not isinstance(model.geometry, Boxes | Gaussians):
        return []
    found = []
    for pair in pairs:
        packed = model.embed_known([pair["first"], pair["second"]])
        centres, reach = (part.double().cpu() for part in _region(model.geometry, packed))
        if not (centres.isfinite().all() and reach.isfinite().all()):
            continue
        apart = (centres[0] - centres[1]).abs() / reach.sum(0)
        chosen = apart.topk(min(2, len(apart))).indices.sort().values
        shape = {
            "shape": "box" if isinstance(model.geometry, Boxes) else "Gaussian",
            "dimensions": (chosen + 1).tolist(),
            "centre": _rounded(centres[:, chosen].tolist(), 5),
            "reach": _rounded(reach[:, chosen].tolist(), 5),
        }
        found.append({**pair, **shape})
    return found


def _region(geometry: Geometry, packed: Tensor) -> tuple[Tensor, Tensor]:
    """Return centres and half side lengths or standard deviations of embeddings, [S, d] each.

    The size of a point is 0.
    """
    if isinstance(geometry, Boxes):
        box = geometry.corners(packed)
        return (box.lower + box.upper) / 2, (box.upper - box.lower) / 2
    if isinstance(geometry, Gaussians):
        mean, log_sigma = gaussians.unpack(packed)
        return mean, log_sigma.exp()
    return packed, torch.zeros_like(packed)


def _drawn(count: int, most: int) -> NDArray[np.int64]:
    """Return at most ``most`` random rows of ``count``, sorted."""
    return np.sort(np.random.default_rng(SEED).permutation(count)[:most])


def _rounded(values: Any, digits: int) -> Any:
    """Return a number, or nested lists of numbers, rounded to significant ``digits``.

    A number that is not finite, which JSON does not have, becomes None.
    """
    if isinstance(values, list):
        return [_rounded(value, digits) for value in values]
    return float(f"{values:.{digits}g}") if np.isfinite(values) else None
