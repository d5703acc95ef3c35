"""Draw a stratified sample of a corpus, in which every class keeps its share.

Systematic sampling (Cochran 1977, "Sampling Techniques", chapter 8): the rows are ordered by
stratum, shuffled within each, and every N/n-th is taken. A stratum of h rows gets n h / N rows,
rounded up or down, and at least one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sentune.corpora.schema import Corpus, Kind

FEWEST = 12
"""Fewest training rows of a label: each of 10 folds of the rows outside another fold has one."""

QUANTILES = 10
"""Number of strata by score, of equal size."""


def stratified_rows(corpus: Corpus, rows: int, seed: int = 0) -> NDArray[np.int64]:
    """Return the indices of about ``rows`` rows in increasing order, or of all if there are fewer.

    Labelled pairs are stratified by both labels and by which sentence is longer, pairs of several
    labels by these, scored pairs by subset and decile of score, conditioned ones by decile,
    operations by their name, rows of transfer tasks by split and label or decile of score. All
    rows of other kinds are returned, because a part of them is a different task.

    A few more rows are returned if strata would otherwise be empty, or a label of a transfer task
    have fewer than ``FEWEST`` training rows. The seed determines the order within strata.
    """
    count, strata = corpus.table.num_rows, _strata(corpus.kind, corpus.table)
    if rows >= count or strata is None:
        return np.arange(count)
    order = np.lexsort((np.random.default_rng(seed).permutation(count), strata))
    chosen = order[((np.arange(rows) + 0.5) * count / rows).astype(np.int64)]
    firsts = order[np.unique(strata[order], return_index=True)[1]]
    chosen = np.union1d(chosen, firsts)
    if corpus.kind is not Kind.CLASSIFIED:
        return chosen
    folded = np.array([(of or "train") == "train" for of in corpus.table["split"].to_pylist()])
    rest = order[folded[order] & ~np.isin(order, chosen)]
    places = np.arange(len(rest)) - np.searchsorted(strata[rest], strata[rest])  # in its stratum
    return np.union1d(chosen, rest[places < FEWEST - np.bincount(strata[chosen])[strata[rest]]])


def stratified_part(corpus: Corpus, rows: int) -> Corpus:
    """Return the corpus reduced to ``stratified_rows``."""
    places = stratified_rows(corpus, rows)
    if len(places) == corpus.table.num_rows:
        return corpus
    return replace(corpus, table=corpus.table.take(pa.array(places)))


def _strata(kind: Kind, table: pa.Table) -> NDArray[np.int64] | None:
    """Return the number of each row's stratum, [N]; None for a kind without strata."""
    columns: dict[str, list[Any]] = table.select(
        [name for name in table.column_names if name in _OF.get(kind, ())]
    ).to_pydict()
    if not columns:
        return None
    if kind is Kind.LABELLED_PAIRS:
        sides = columns.pop("premise"), columns.pop("hypothesis")
        lengths = (np.array([len(text.strip()) for text in side]) for side in sides)
        columns["longer"] = np.sign(np.subtract(*lengths)).tolist()
    if "score" in columns:
        scores = np.array(columns["score"])
        edges = np.quantile(scores, np.arange(QUANTILES) / QUANTILES)
        columns["score"] = np.searchsorted(edges, scores).tolist()
    keys = [repr(row) for row in zip(*columns.values(), strict=True)]
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


_OF = {
    Kind.LABELLED_PAIRS: ("premise", "hypothesis", "label", "reverse_label"),
    Kind.SEVERAL_LABELS: ("labels",),
    Kind.SCORED_PAIRS: ("subset", "score"),
    Kind.CONDITIONED_PAIRS: ("score",),
    Kind.OPERATIONS: ("operation",),
    Kind.CLASSIFIED: ("split", "label"),
    Kind.RELATED: ("split", "score"),
}
"""Kind -> the columns that determine a row's stratum."""
