"""What a run is given, made once on the driver: tokens, and what a method is built from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from sentune.corpora.encode import WordEncoder
from sentune.corpora.prepare import Prepared, Run, prepared
from sentune.corpora.schema import Kind
from sentune.corpora.tokens import (
    Spread,
    TableEncoder,
    TokenFolder,
    tokenise_batches,
    unigram_counts,
)
from sentune.credentials import without_credentials
from sentune.encoders import prepare
from sentune.encoders.decoders import bundle, prepare_decoder
from sentune.encoders.words import open_words
from sentune.encoders.words.learned import learn_words
from sentune.encoders.words.whole import training_folder
from sentune.methods import GradientMethod
from sentune.training.recipes import RECIPES, recipe_of

SAMPLE = 10_000
"""Sentences on which the share of known words is measured."""

LEARNED = 1_000_000
"""Sentences of a corpus, from its beginning, that built-in encoders, decoders and word vectors
learn their words from."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Token shards, and the folder that a method is built from.

    Attributes:
        folder: for ``TrialSpec.encoder``.
        tokens: of each training corpus.
        corpora: the training corpora on disk.
        note: a line to show, empty if there is none.
    """

    folder: str
    tokens: tuple[TokenFolder, ...]
    corpora: tuple[Prepared, ...]
    note: str = ""


def sentence_inputs(
    spec: str,
    kind: type[GradientMethod],
    *,
    encoder: str,
    max_length: int,
    cache: Path,
    limit: int | None = None,
    uri: str = "",
    spread: Spread = map,
    run: Run | None = None,
) -> Inputs:
    """For methods that embed sentences and compare them: an encoder, and its tokens.

    Args:
        spec: a corpus of the method's kind.
        kind: the method.
        encoder: as ``encoders.prepare`` reads it; a built-in one learns its words from the corpus.
        limit: rows at most.
        uri: of the cache in an object store; empty where all nodes see the cache.
        spread: as ``tokenise_batches`` takes it.
        run: as ``prepared`` takes it.
    """
    corpus = _prepared(spec, kind.kind, cache, limit, uri, run)
    texts = islice(corpus.texts(*corpus.column_names), LEARNED)
    folder = prepare(encoder, texts, cache)
    ids = recipe_of(kind).table_encoder(folder, max_length)
    tokens = _tokens(corpus, ids, cache, uri, spread)
    return Inputs(folder=folder, tokens=(tokens,), corpora=(corpus,))


def operation_inputs(
    specs: Sequence[str],
    *,
    encoder: str,
    decoder: str,
    max_length: int,
    cache: Path,
    limit: int | None = None,
    uri: str = "",
    spread: Spread = map,
    run: Run | None = None,
) -> Inputs:
    """For methods that decode: an encoder and a decoder, each with its own tokens.

    Args:
        specs: corpora of operations.
        encoder, decoder: as ``encoders.prepare`` and ``encoders.decoders.prepare_decoder`` read
            them; built-in ones learn their words from the corpora.
        limit: rows of each corpus at most.
        uri, spread, run: as of ``sentence_inputs``.
    """
    corpora = tuple(_prepared(spec, Kind.OPERATIONS, cache, limit, uri, run) for spec in specs)
    every = chain.from_iterable(
        islice(corpus.texts("first", "second", "target"), LEARNED) for corpus in corpora
    )
    targets = chain.from_iterable(islice(c.texts("target"), LEARNED) for c in corpora)
    folder = bundle(prepare(encoder, every, cache), prepare_decoder(decoder, targets, cache), cache)
    ids = RECIPES["intersent"].table_encoder(folder, max_length)
    tokens = tuple(_tokens(corpus, ids, cache, uri, spread) for corpus in corpora)
    return Inputs(folder=folder, tokens=tokens, corpora=corpora)


def word_inputs(
    spec: str,
    *,
    vectors: str,
    frequencies: str | None,
    max_length: int,
    cache: Path,
    limit: int | None = None,
    uri: str = "",
    spread: Spread = map,
    run: Run | None = None,
) -> Inputs:
    """For methods on fixed word vectors: the words of adjacent sentences.

    Args:
        vectors: ``glove:FILE``, ``fasttext:FILE``, or ``builtin:ppmi``, learned from the corpus.
        frequencies: counts of words, for files of vectors.
        uri, spread, run: as of ``sentence_inputs``.
    """
    corpus = _prepared(spec, Kind.ADJACENT_SENTENCES, cache, limit, uri, run)
    if vectors.startswith("builtin:"):
        words = learn_words(islice(corpus.texts("text"), LEARNED), vectors, cache)
    else:
        words = open_words(vectors, frequencies, cache)
    ids = WordEncoder(words.without_vectors(), max_length)
    tokens = _tokens(corpus, ids, cache, uri, spread)
    counts = unigram_counts(tokens, "following", len(words.words))
    known = words.known_share(list(islice(corpus.texts("text"), SAMPLE)))
    shown = without_credentials(vectors)
    return Inputs(
        folder=training_folder(words, counts, cache),
        tokens=(tokens,),
        corpora=(corpus,),
        note=f"vectors {shown}: {len(words.words):,} words, {known:.1%} of the corpus's",
    )


def _prepared(
    spec: str, kind: Kind, cache: Path, limit: int | None, uri: str, run: Run | None
) -> Prepared:
    name = kind.value
    place = uri and f"{uri}/{name}"
    return prepared(spec, kind, cache / name, limit=limit, uri=place, run=run)


def _tokens(
    corpus: Prepared, ids: TableEncoder, cache: Path, uri: str, spread: Spread
) -> TokenFolder:
    return tokenise_batches(
        corpus.batches(),
        corpus.fingerprint,
        ids,
        cache / "tokens",
        spread=spread,
        files=corpus.cached if uri else (),
        uri=uri and f"{uri}/tokens",
    )
