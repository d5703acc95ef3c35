"""The registry of all formats, with their readers and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from sentune.corpora.formats import arrow, beir, books, builtin, hub, nli, operations, senteval, sts
from sentune.corpora.formats.reading import Readers
from sentune.corpora.formats.spec import Spec
from sentune.corpora.schema import Kind


class Format(NamedTuple):
    """A format of corpora.

    Attributes:
        given: its readers, or a function from a specification to readers.
        options: its own options with their meaning, in addition to ``COMMON``.
    """

    given: Readers | Callable[[Spec], Readers]
    options: Mapping[str, str] = {}

    def readers(self, spec: Spec) -> Readers:
        """Return the readers of the corpus's native kinds; ``open`` derives others."""
        return self.given(spec) if callable(self.given) else self.given


COMMON = {
    "rows": "A:B, a slice of the resulting rows",
    "premises": "A:B, a slice of the distinct first sentences",
    "bad_rows": "N or P%, the bad rows that are left out before they are an error",
    "negatives": "one or all contradictions for each entailment, if pairs become triplets",
}


def _nli(spec: Spec) -> Readers:
    """Return the reader of the gold labels, or with ``votes`` of the annotators' labels."""
    if "votes" in spec.options:
        return {Kind.SEVERAL_LABELS: nli.several}
    return {Kind.LABELLED_PAIRS: nli.jsonl}


FORMATS: dict[str, Format] = {
    "snli": Format(_nli, nli.OPTIONS),
    "multinli": Format(_nli, nli.OPTIONS),
    "ambient": Format({Kind.SEVERAL_LABELS: nli.ambient}),
    "chaosnli": Format({Kind.SEVERAL_LABELS: nli.chaosnli}, nli.CHAOS_OPTIONS),
    "simcse-csv": Format({Kind.TRIPLETS: nli.simcse}),
    "sick": Format(
        {Kind.LABELLED_PAIRS: nli.sick_pairs, Kind.SCORED_PAIRS: nli.sick_scores}, nli.SICK_OPTIONS
    ),
    "stsb": Format({Kind.SCORED_PAIRS: sts.stsb}),
    "sts": Format({Kind.SCORED_PAIRS: sts.folder}, sts.OPTIONS),
    "csts": Format({Kind.CONDITIONED_PAIRS: sts.csts}, sts.CSTS_OPTIONS),
    "senteval": Format(senteval.readers, senteval.OPTIONS),
    "beir": Format({Kind.QUERIES: beir.queries, Kind.SENTENCES: beir.sentences}, beir.OPTIONS),
    "parquet": Format(arrow.readers),
    "text": Format({Kind.SENTENCES: books.one_a_line}),
    "books": Format(
        {Kind.ADJACENT_SENTENCES: books.adjacent, Kind.SENTENCES: books.sentences}, books.OPTIONS
    ),
    "hf": Format(hub.readers, hub.OPTIONS),
    **dict.fromkeys(("csv", "tsv", "json", "jsonl"), Format(hub.readers, hub.FILE_OPTIONS)),
    "builtin": Format(builtin.readers, builtin.OPTIONS),
    "wikisplit": Format({Kind.OPERATIONS: operations.wikisplit}, operations.WIKISPLIT_OPTIONS),
    "discofuse": Format({Kind.OPERATIONS: operations.discofuse}),
    "compression": Format({Kind.OPERATIONS: operations.compression}),
    "gigaword": Format({Kind.OPERATIONS: operations.gigaword}, operations.GIGAWORD_OPTIONS),
    "paranmt": Format({Kind.OPERATIONS: operations.paranmt}),
    "quora": Format({Kind.OPERATIONS: operations.quora}),
    "operations": Format({Kind.OPERATIONS: operations.jsonl}, operations.OPTION),
}
