"""Tokens and batches: contents, order, epochs, resumes."""

from __future__ import annotations

import multiprocessing
import pickle
import shutil
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from sentune.corpora import Corpus, Kind, read
from sentune.corpora.batches import Batch, Held, SharedSource
from sentune.corpora.encode import Encoder
from sentune.corpora.schema import LABELS
from sentune.corpora.tokens import Ragged, TokenTable, tokenise_batches
from sentune.errors import CorpusError, InvalidValue
from tests.token_tables import tokenise

SIZE = 90


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return read(f"builtin:nli?size={SIZE}", Kind.TRIPLETS)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory, corpus: Corpus) -> str:
    words = {w for c in corpus.table.itercolumns() for s in c.to_pylist() for w in s.split()}
    return make_tokenizer(tmp_path_factory.mktemp("tokenizer"), sorted(words))


def make_tokenizer(folder: Path, words: list[str]) -> str:
    vocabulary = {w: i for i, w in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
        sep_token="[SEP]",
    ).save_pretrained(folder)  # fmt: skip
    return str(folder)


def numbered(shards: tuple[int, ...]) -> TokenTable:
    """Row r holds the single token r."""
    rows = sum(shards)
    column = Ragged(np.arange(rows, dtype=np.int32), np.arange(rows + 1))
    return TokenTable({"text": column}, shards, "numbered")


def rows_of(batch: Batch) -> list[int]:
    return [int(ids[0]) for ids in batch.columns["text"]]


SHARDS = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(tuple)


@given(SHARDS, st.integers(1, 8), st.integers(0, 3), st.data())
def test_an_epoch_shows_each_row_once_and_drops_less_than_a_batch(
    shards: tuple[int, ...], batch_size: int, seed: int, data: st.DataObject
) -> None:
    table = numbered(shards)
    batch_size = min(batch_size, sum(shards))
    whole = sum(shards) // batch_size
    batches = list(islice(SharedSource(table).batches(batch_size, seed), 2 * whole))
    for epoch in range(2):
        seen = [r for b in batches[epoch * whole :][:whole] for r in rows_of(b)]
        assert len(seen) == len(set(seen)) == whole * batch_size
    assert [b.epoch for b in batches] == [0] * whole + [1] * whole
    assert [b.first for b in batches] == [i * batch_size for i in range(2 * whole)]


@given(SHARDS, st.integers(1, 8), st.integers(0, 3), st.integers(0, 20))
def test_a_resume_gives_what_an_uninterrupted_run_gives(
    shards: tuple[int, ...], batch_size: int, seed: int, done: int
) -> None:
    source = SharedSource(numbered(shards))
    batch_size = min(batch_size, source.num_rows)
    straight = list(islice(source.batches(batch_size, seed), done, done + 5))
    resumed = list(islice(source.batches(batch_size, seed, done * batch_size), 5))
    assert [(b.epoch, b.first, rows_of(b)) for b in resumed] == [
        (b.epoch, b.first, rows_of(b)) for b in straight
    ]


def test_order_depends_on_seed_and_epoch_and_stays_within_shards() -> None:
    source = SharedSource(numbered((50, 50)))
    first, second = (rows_of(b) for b in islice(source.batches(100, 0), 2))
    other = rows_of(next(source.batches(100, 1)))
    assert len({tuple(first), tuple(second), tuple(other)}) == 3
    assert max(first[:50]) < 50 or min(first[:50]) >= 50


def test_batches_that_cannot_be_had_are_refused() -> None:
    source = SharedSource(numbered((5,)))
    with pytest.raises(InvalidValue, match=r"batch_size: 6 .* 1 to 5"):
        source.batches(6, 0)
    with pytest.raises(InvalidValue, match=r"start: 3 .* multiple"):
        source.batches(2, 0, start=3)
    assert Held(source).open() is source


def test_token_ids_are_those_of_the_tokenizer(corpus: Corpus, tokenizer: str) -> None:
    table = tokenise(corpus, Encoder(tokenizer, 8), None)
    fast = PreTrainedTokenizerFast.from_pretrained(tokenizer)
    for name in ("anchor", "positive", "negative"):
        texts = corpus.table.column(name).to_pylist()
        expected = fast(texts, truncation=True, max_length=8)["input_ids"]
        assert [table.columns[name][r].tolist() for r in range(SIZE)] == expected
    assert table.columns["anchor"].ids.dtype == np.int32
    assert table.shards == (SIZE,)


def test_labels_are_codes_and_no_tokens(tokenizer: str) -> None:
    pairs = read("builtin:nli?size=9", Kind.LABELLED_PAIRS)
    columns = tokenise(pairs, Encoder(tokenizer, 8), None).columns
    assert set(columns) == {"premise", "hypothesis", "label"}
    expected = [[LABELS.index(label)] for label in pairs.table.column("label").to_pylist()]
    assert [columns["label"][row].tolist() for row in range(9)] == expected


@pytest.mark.parametrize("shard_rows", [1, 20, 45, 90, 200])
def test_the_cache_gives_the_same_table(
    tmp_path: Path, corpus: Corpus, tokenizer: str, shard_rows: int
) -> None:
    plain = tokenise(corpus, Encoder(tokenizer, 9), None, shard_rows=shard_rows)
    for _ in range(2):
        cached = tokenise(corpus, Encoder(tokenizer, 9), tmp_path, shard_rows=shard_rows)
        assert (cached.shards, cached.fingerprint) == (plain.shards, plain.fingerprint)
        for name, column in plain.columns.items():
            assert np.array_equal(column.ids, cached.columns[name].ids)
            assert np.array_equal(column.offsets, cached.columns[name].offsets)
    folder = tokenise_batches(
        [], corpus.fingerprint, Encoder(tokenizer, 9), tmp_path, shard_rows=shard_rows
    )
    assert (
        folder.nbytes >= sum(c.ids.nbytes + c.offsets.nbytes for c in plain.columns.values()) - 200
    )


def test_corpus_tokenizer_and_length_have_a_cache_each(
    tmp_path: Path, corpus: Corpus, tokenizer: str
) -> None:
    other_tokenizer = make_tokenizer(tmp_path / "other", ["a", "no"])
    other_corpus = read("builtin:nli?size=9", Kind.TRIPLETS)
    cache = tmp_path / "cache"
    for args in [
        (corpus, tokenizer, 8), (corpus, tokenizer, 9), (corpus, other_tokenizer, 8),
        (other_corpus, tokenizer, 8),
    ]:  # fmt: skip
        tokenise(args[0], Encoder(args[1], args[2]), cache)
    assert len(list(cache.iterdir())) == 4


def test_ids_in_the_cache_want_no_tokenizer_and_one_that_is_sent_wants_no_folder(
    tmp_path: Path, corpus: Corpus, tokenizer: str
) -> None:
    folder, cache = str(shutil.copytree(tokenizer, tmp_path / "tokenizer")), tmp_path / "cache"
    made = tokenise(corpus, Encoder(folder, 8), cache)
    known, sent = Encoder(folder, 8), pickle.dumps(Encoder(folder, 8))
    shutil.rmtree(folder)
    for again in (tokenise(corpus, known, cache), tokenise(corpus, pickle.loads(sent), None)):
        assert again.fingerprint == made.fingerprint
        for name, column in made.columns.items():
            assert np.array_equal(column.ids, again.columns[name].ids)


@pytest.mark.parametrize(
    ("name", "counts"), [("bpe.codes", True), ("vocab.txt", True), ("model.safetensors", False)]
)
def test_all_files_of_a_tokenizer_tell_it_apart_and_weights_do_not(
    tmp_path: Path, tokenizer: str, name: str, counts: bool
) -> None:
    folder = shutil.copytree(tokenizer, tmp_path / "tokenizer")
    assert Encoder(str(folder), 8).fingerprint == Encoder(tokenizer, 8).fingerprint
    (folder / name).write_text("a")
    found = Encoder(str(folder), 8).fingerprint != Encoder(tokenizer, 8).fingerprint
    assert found is counts


def test_no_room_for_a_token_is_refused(corpus: Corpus, tokenizer: str) -> None:
    with pytest.raises(InvalidValue, match=r"max_length: 2 .* at least 3"):
        tokenise(corpus, Encoder(tokenizer, 2), None)


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, tokenizer: str) -> None:
    with pytest.raises(CorpusError, match="without rows"):
        tokenise_batches([], "none", Encoder(tokenizer, 8), tmp_path)
    assert list(tmp_path.iterdir()) == []


def _tokenise_in_a_process(folder: str, tokenizer: str) -> int:
    texts = pa.record_batch({"text": pa.array(["a dog"] * 30)})
    made = tokenise_batches([texts], "same", Encoder(tokenizer, 8), Path(folder), shard_rows=7)
    return sum(pq.read_metadata(made.cached(i).here()).num_rows for i in range(len(made.shards)))


def test_processes_may_fill_the_cache_at_once(tmp_path: Path, tokenizer: str) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        args = [(str(tmp_path), tokenizer)] * 4
        assert pool.starmap(_tokenise_in_a_process, args, chunksize=1) == [30] * 4
    assert len(list(tmp_path.iterdir())) == 1
