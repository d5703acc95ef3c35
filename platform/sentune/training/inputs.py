"""Inputs of a training run, made once on the driver: token tables and the parts of a method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from sentune.corpora.encode import Encoder, WordEncoder, sentence_columns
from sentune.corpora.prepare import Prepared, Run, prepared
from sentune.corpora.schema import SCHEMAS, Kind
from sentune.corpora.tokens import (
    Spread,
    TableEncoder,
    TokenFolder,
    tokenise_batches,
    unigram_counts,
)
from sentune.credentials import without_credentials
from sentune.encoders import prepare
from sentune.encoders.prepare import bundle, prepare_decoder
from sentune.encoders.words import WordTable, check_words, open_words
from sentune.encoders.words.learned import PpmiSpec, learn_words
from sentune.encoders.words.whole import training_folder
from sentune.methods import ClosedForm, GradientMethod
from sentune.training.recipes.intersent import operation_encoder

SAMPLE = 10_000
"""Sentences of a corpus on which the share of known words is measured."""

LEARNED = 1_000_000
"""Sentences, from the beginning of a corpus, from which built-in encoders, decoders and word
vectors learn their words."""

PRETRAINED = {"encoder", "decoder", "vectors", "frequencies"}
"""Options that name the parts from which methods are built."""

STORIES = ("builtin:stories", ("builtin:similarity",))
"""Default training and development corpora of methods on word vectors."""

BUILTIN = {
    Kind.TRIPLETS: ("builtin:nli", ("builtin:nli",)),
    Kind.LABELLED_PAIRS: ("builtin:nli", ("builtin:nli",)),
    Kind.SENTENCES: ("builtin:nli", ("builtin:nli",)),
    Kind.SENTENCE_PAIRS: ("builtin:operations", ("builtin:scenes",)),
    Kind.OPERATIONS: ("builtin:operations", ("builtin:operations", "builtin:scenes")),
    Kind.ADJACENT_SENTENCES: STORIES,
}
"""Kind of corpus -> default training and development corpora, which the package includes."""


def parts_of(kind: type[GradientMethod] | type[ClosedForm]) -> tuple[str, ...]:
    """Return the options in ``PRETRAINED`` from which a method is built."""
    if kind.on_words:
        return "vectors", "frequencies"
    return ("encoder", "decoder") if kind.kind is Kind.OPERATIONS else ("encoder",)


def preferred_pairs(kind: type[GradientMethod] | type[ClosedForm]) -> Kind | None:
    """Return the pairs to judge a method on from a format that has several kinds, such as SICK.

    None stands for the order of ``read_pairs``.
    """
    scored = kind.kind in (Kind.OPERATIONS, Kind.ADJACENT_SENTENCES)
    return Kind.SCORED_PAIRS if scored or issubclass(kind, ClosedForm) else None


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """The inputs of a training run.

    Attributes:
        folder: folder from which the method is built, for ``TrialSpec.encoder``.
        tokens: token tables of the training corpora.
        corpora: training corpora on disk.
        note: line to show to the user.
    """

    folder: str
    tokens: tuple[TokenFolder, ...]
    corpora: tuple[Prepared, ...]
    note: str = ""


def word_table(
    corpus: Prepared,
    vectors: str,
    frequencies: str | None,
    cache: Path,
    columns: Sequence[str] = ("text",),
) -> WordTable:
    """Return word vectors from a file, or ``builtin:ppmi`` learned from columns of a corpus."""
    if vectors.startswith("builtin:"):
        return learn_words(islice(corpus.texts(*columns), LEARNED), vectors, cache)
    return open_words(vectors, frequencies, cache)


def check_word_table(vectors: str, frequencies: str | None) -> None:
    """Check the name of built-in vectors or that the files exist, with ``word_table``'s errors."""
    if vectors.startswith("builtin:"):
        PpmiSpec.parse(vectors)
    else:
        check_words(vectors, frequencies)


@dataclass(frozen=True, kw_only=True)
class InputMaker:
    """Makes the inputs of each family of methods, reusing cached results.

    Attributes:
        max_length: maximum tokens of a sentence.
        cache: folder of prepared corpora, tokens and encoders.
        limit: maximum rows of each training corpus.
        uri: URI of the cache in an object store; empty if all nodes can read ``cache``.
        spread: see ``tokenise_batches``.
        run: see ``prepared``.
    """

    max_length: int
    cache: Path
    limit: int | None = None
    uri: str = ""
    spread: Spread = map
    run: Run | None = None

    def inputs(
        self,
        kind: type[GradientMethod],
        specs: Sequence[str],
        *,
        encoder: str = "",
        decoder: str = "",
        vectors: str = "",
        frequencies: str | None = None,
    ) -> Inputs:
        """Return the inputs of a method, with one corpus unless its kind is ``OPERATIONS``.

        Built-in encoders, decoders and vectors learn their words from the corpora.

        Args:
            vectors: ``glove:FILE``, ``fasttext:FILE`` or ``builtin:ppmi``.
            frequencies: file of word counts, for vectors from a file.
        """
        if kind.kind is Kind.OPERATIONS:
            return self._operations(specs, encoder, decoder)
        (spec,) = specs
        corpus = self.prepared(spec, kind.kind, self.limit)
        columns = sentence_columns(SCHEMAS[kind.kind])
        if kind.on_words:
            return self._words(corpus, columns, vectors, frequencies)
        texts = islice(corpus.texts(*columns), LEARNED)
        folder = prepare(encoder, texts, self.cache, corpus.fingerprint)
        tokens = self._tokens(corpus, Encoder(folder, self.max_length))
        return Inputs(folder=folder, tokens=(tokens,), corpora=(corpus,))

    def _operations(self, specs: Sequence[str], encoder: str, decoder: str) -> Inputs:
        corpora = tuple(self.prepared(spec, Kind.OPERATIONS, self.limit) for spec in specs)
        every = chain.from_iterable(
            islice(corpus.texts("first", "second", "target"), LEARNED) for corpus in corpora
        )
        targets = chain.from_iterable(islice(c.texts("target"), LEARNED) for c in corpora)
        source = " ".join(corpus.fingerprint for corpus in corpora)
        folders = (
            prepare(encoder, every, self.cache, source),
            prepare_decoder(decoder, targets, self.cache, source),
        )
        folder = bundle(*folders, self.cache)
        ids = operation_encoder(folder, self.max_length)
        tokens = tuple(self._tokens(corpus, ids) for corpus in corpora)
        return Inputs(folder=folder, tokens=tokens, corpora=corpora)

    def _words(
        self, corpus: Prepared, columns: Sequence[str], vectors: str, frequencies: str | None
    ) -> Inputs:
        if corpus.kind is Kind.ADJACENT_SENTENCES:
            columns = ["text"]  # has each sentence once
        words = word_table(corpus, vectors, frequencies, self.cache, columns)
        tokens = self._tokens(corpus, WordEncoder(words.without_vectors(), self.max_length))
        counts = unigram_counts(tokens, tokens.columns[1], len(words.words))
        known = words.known_share(list(islice(corpus.texts(*columns), SAMPLE)))
        shown = without_credentials(vectors)
        return Inputs(
            folder=training_folder(words, counts, self.cache),
            tokens=(tokens,),
            corpora=(corpus,),
            note=f"vectors {shown}: {len(words.words):,} words, {known:.1%} of the corpus's",
        )

    def prepared(self, spec: str, kind: Kind, limit: int | None = None) -> Prepared:
        """Return a prepared corpus of at most ``limit`` rows."""
        uri = self.uri and f"{self.uri}/{kind.value}"
        return prepared(spec, kind, self.cache / kind.value, limit=limit, uri=uri, run=self.run)

    def _tokens(self, corpus: Prepared, ids: TableEncoder) -> TokenFolder:
        return tokenise_batches(
            corpus.batches(),
            corpus.fingerprint,
            ids,
            self.cache / "tokens",
            spread=self.spread,
            files=corpus.cached if self.uri else (),
            uri=self.uri and f"{self.uri}/tokens",
        )
