"""Retrieval: ranks of a query's relevant passages among all passages of a corpus.

InterSent sections 3.6 (MRR@10 and recall@10 on Quora's questions) and 4.1 (recall@100).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sentune.beats import beat
from sentune.corpora.formats.beir import corpus_file, passage_log, passages
from sentune.corpora.schema import Corpus, Kind
from sentune.errors import CorpusError
from sentune.tasks.base import Given, Model, Result, finite, require, under
from sentune.tasks.nearest_passages import NearestPassages

METRICS = ("mrr@10", "recall@10", "recall@100")
DEPTH = 100
BLOCK = 8192
"""Passages to encode at once."""


class Retrieval:
    """Retrieval of the passages of a ``beir:`` folder by the geometry's similarity to queries.

    Metrics, each the mean over queries: ``mrr@10``, 1 / rank of the first relevant passage, 0 if
    the rank is above 10; ``recall@10`` and ``recall@100``, the fraction of the relevant passages
    among the first 10 and 100. The search is exact. Passages are streamed from the file, so memory
    holds 100 hits per query and one block of passages. Equally similar passages rank in the order
    of the file.

    A relevant passage that the file lacks counts as not found, as in BEIR (trec_eval);
    ``NAME/counts.json`` has their number. A passage with the query's own id is not a hit, as in
    BEIR (``ignore_identical_ids``), because in Quora and ArguAna the queries are also passages.

    Raises:
        CorpusError: the corpus has no queries, or no folder of passages.
        InvalidValue: the queries are not from a ``beir:`` folder.
    """

    kind = "retrieval"

    def __init__(self, corpus: Corpus, name: str = kind) -> None:
        require(corpus, Kind.QUERIES, name)
        columns = corpus.table.to_pydict()
        self.name, self.corpus, self._file = name, corpus.spec, corpus_file(corpus.spec)
        self.ids: list[str] = columns["id"]
        self.queries: list[str] = columns["query"]
        self.relevant: list[list[str]] = columns["relevant"]

    def run(self, model: Model, readouts: Given = None) -> Result:
        """Encode queries and passages and return the metrics; there is no readout.

        Raises:
            CorpusError: a passage cannot be read, a relevant passage occurs twice, or all relevant
                passages are missing.
            TrialFailed: an embedding is not finite.
        """
        embedded = finite(model.embed(self.queries), self.queries)
        search = NearestPassages(embedded, model.geometry, depth=DEPTH)
        log = passage_log(self.corpus)
        wanted = {name for names in self.relevant for name in names}
        own = {name: query for query, name in enumerate(self.ids)}
        places: dict[str, int] = {}  # relevant passage -> its index in the file
        left_out = 0
        source = passages(self.corpus, log)
        while block := list(islice(source, BLOCK)):
            beat()
            hidden = []  # (query, place) of the passages that have a query's own id
            for place, (name, _) in enumerate(block, search.seen):
                if name in places:
                    raise CorpusError(self._file, f"the passage {name} occurs twice")
                if name in wanted:
                    places[name] = place
                if name in own:
                    hidden.append((own[name], place))
            left_out += len(hidden)
            texts = [text for _, text in block]
            search.add(finite(model.embed(texts), texts), hidden)
        if not places:
            reason = f"it has none of the {len(wanted)} relevant passages of the queries"
            raise CorpusError(self._file, reason)
        hits = search.hits().places.cpu().numpy()
        counts = {
            "queries": len(self.queries),
            "passages": search.seen,
            "bad_passages": len(log.bad),
            "relevant": sum(map(len, self.relevant)),
            "relevant_missing": sum(name not in places for n in self.relevant for name in n),
            "left_out_identical": left_out,
        }
        tables: dict[str, Any] = {f"{self.name}/counts.json": counts}
        if log.bad:
            bad = [{"line": row.line, "reason": row.reason} for row in log.bad]
            tables[f"{self.name}/bad_passages.json"] = bad
        return Result(metrics=self._metrics(hits, places), tables=tables)

    def _metrics(self, hits: NDArray[np.int64], places: Mapping[str, int]) -> dict[str, float]:
        """Return the metrics of the hits' indices in the file, [Q, K]."""
        sizes = np.array([len(names) for names in self.relevant])
        wanted = ([places[n] for n in names if n in places] for names in self.relevant)
        right = np.array([np.isin(*sides) for sides in zip(hits, wanted, strict=True)])
        first = right[:, :10].argmax(axis=1)
        values = (
            np.where(right[:, :10].any(axis=1), 1 / (first + 1), 0),
            right[:, :10].sum(axis=1) / sizes,
            right.sum(axis=1) / sizes,
        )
        means = [float(of_queries.mean()) for of_queries in values]
        return under(self.name, dict(zip(METRICS, means, strict=True)))
