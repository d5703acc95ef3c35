"""All formats: what each gives and which options it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from sentune.corpora.formats import (
    annotators,
    arrow,
    beir,
    books,
    builtin,
    compressions,
    csts,
    fusions,
    gigaword,
    hub,
    nli,
    operations,
    paraphrases,
    senteval,
    sts,
    tables,
)
from sentune.corpora.formats.reading import Log, Row
from sentune.corpora.formats.spec import Spec
from sentune.corpora.schema import Kind

Reader = Callable[[Spec, Log], Iterator[Row]]
Readers = Mapping[Kind, Reader]


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format.

    Attributes:
        readers: the kinds that it holds and how to read them. Triplets follow from labelled
            pairs, sentences from anything (see ``derived``).
        options: its own options with their meaning, beside those that all formats have.
        what: one line for people.
    """

    readers: Callable[[Spec], Readers]
    what: str
    options: Mapping[str, str] = field(default_factory=dict)


COMMON = {
    "rows": "A:B, a slice of the resulting rows",
    "premises": "A:B, a slice of the distinct first sentences",
    "negatives": "one or all contradictions for each entailment, where pairs become triplets",
}


_VOTES = "labels that so many annotators gave, of rows that several annotated; 2 in GumbelCSE"
_NLI_OPTIONS = {
    "votes": _VOTES,
    "annotators": "any or none: without the premises of rows that several people annotated",
}


def _nli(spec: Spec) -> Readers:
    """One label a row, or with ``votes`` those of its annotators."""
    if "votes" in spec.options:
        return {Kind.SEVERAL_LABELS: annotators.several}
    return {Kind.LABELLED_PAIRS: nli.jsonl}


def _always(readers: Readers) -> Callable[[Spec], Readers]:
    return lambda spec: readers


FORMATS: dict[str, Format] = {
    "snli": Format(
        readers=_nli,
        options=_NLI_OPTIONS,
        what="official SNLI .jsonl, plain or .gz",
    ),
    "multinli": Format(
        readers=_nli,
        options=_NLI_OPTIONS,
        what="official MultiNLI .jsonl, plain or .gz",
    ),
    "ambient": Format(
        readers=_always({Kind.SEVERAL_LABELS: annotators.ambient}),
        what="official AmbiEnt .jsonl",
    ),
    "chaosnli": Format(
        readers=_always({Kind.SEVERAL_LABELS: annotators.chaosnli}),
        options={"votes": "labels that so many of 100 annotators gave; default 20"},
        what="official ChaosNLI .jsonl",
    ),
    "simcse-csv": Format(
        readers=_always({Kind.TRIPLETS: tables.simcse}),
        what="CSV with the header sent0,sent1,hard_neg",
    ),
    "sick": Format(
        readers=_always({Kind.LABELLED_PAIRS: nli.sick_pairs, Kind.SCORED_PAIRS: nli.sick_scores}),
        options={"split": "TRAIN, TRIAL or TEST"},
        what="official SICK .txt",
    ),
    "stsb": Format(
        readers=_always({Kind.SCORED_PAIRS: tables.stsb}),
        what="official STS Benchmark .csv",
    ),
    "sts": Format(
        readers=_always({Kind.SCORED_PAIRS: sts.folder}),
        options={"subsets": "A+B or all; default: all but SMT of 2013"},
        what="official folder of a year of STS, 2012 to 2016",
    ),
    "csts": Format(
        readers=_always({Kind.CONDITIONED_PAIRS: csts.pairs}),
        options={"labels": "LC-STS's .tsv, whose labels replace those of the same rows"},
        what="official C-STS .csv",
    ),
    "senteval": Format(
        readers=senteval.readers,
        options=senteval.OPTIONS,
        what="official folder of a transfer task of SentEval, or of all of them",
    ),
    "beir": Format(
        readers=_always({Kind.QUERIES: beir.queries, Kind.SENTENCES: beir.sentences}),
        options=beir.OPTIONS,
        what="a folder in BEIR's layout: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv",
    ),
    "parquet": Format(
        readers=arrow.readers,
        what="a folder that `sentune corpora prepare` wrote, or any .parquet with our columns",
    ),
    "text": Format(readers=_always({Kind.SENTENCES: tables.text}), what="one sentence a line"),
    "books": Format(
        readers=_always({Kind.ADJACENT_SENTENCES: books.adjacent, Kind.SENTENCES: books.sentences}),
        options=books.OPTIONS,
        what="plain text of any length, a .txt file or a folder of them",
    ),
    "hf": Format(
        readers=hub.readers,
        options=hub.OPTIONS,
        what="a dataset by its name or folder, streamed through Hugging Face datasets",
    ),
    "builtin": Format(
        readers=builtin.readers,
        options=builtin.OPTIONS,
        what=builtin.WHAT,
    ),
    "wikisplit": Format(
        readers=_always({Kind.OPERATIONS: fusions.wikisplit}),
        options=fusions.WIKISPLIT_OPTIONS,
        what="official WikiSplit .tsv",
    ),
    "discofuse": Format(
        readers=_always({Kind.OPERATIONS: fusions.discofuse}),
        what="official DiscoFuse .tsv",
    ),
    "compression": Format(
        readers=_always({Kind.OPERATIONS: compressions.compression}),
        what="official .json of Google's sentence compression, or sentence TAB compression",
    ),
    "gigaword": Format(
        readers=_always({Kind.OPERATIONS: gigaword.gigaword}),
        options=gigaword.OPTIONS,
        what="Rush et al.'s folder of articles and titles, or article TAB title",
    ),
    "paranmt": Format(
        readers=_always({Kind.OPERATIONS: paraphrases.paranmt}),
        what="official ParaNMT .txt",
    ),
    "quora": Format(
        readers=_always({Kind.OPERATIONS: paraphrases.quora}),
        what="official .tsv of Quora's question pairs, of which the duplicates are taken",
    ),
    "operations": Format(
        readers=_always({Kind.OPERATIONS: operations.jsonl}),
        options=operations.OPTION,
        what="JSON lines with operation, first, target and, where it takes two, second",
    ),
}
