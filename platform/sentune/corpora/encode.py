"""Encode the text columns of a corpus as lists of ids, with one encoder per family of methods.

``Encoder`` uses a tokenizer, ``OperationEncoder`` two of them and ``WordEncoder`` a word table.
Each is a ``tokens.TableEncoder``.
"""

from __future__ import annotations

import json
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sentune.corpora.schema import LABELS, OPERATIONS
from sentune.errors import InvalidValue
from sentune.lazy_import import transformers


def sentence_columns(schema: pa.Schema) -> list[str]:
    """Return the columns that hold sentences."""
    texts = (field.name for field in schema if pa.types.is_string(field.type))
    return [name for name in texts if name not in ("label", "reverse_label", "subset")]


def _with_labels(columns: dict[str, pa.ListArray], batch: pa.RecordBatch) -> pa.Table:
    """Return a table of ``columns``, with the column ``label`` if the batch has one.

    A row of ``label`` has one id, the label's index in ``LABELS``, or none for another label.
    """
    if "label" in batch.schema.names:
        codes = pc.index_in(batch.column("label"), pa.array(LABELS)).cast(pa.int32())
        ends = np.cumsum([0, *codes.is_valid().to_numpy(zero_copy_only=False)], dtype=np.int32)
        columns = {**columns, "label": pa.ListArray.from_arrays(ends, codes.drop_null())}
    return pa.table(columns)


_OPERATIONS_VERSION = _WORDS_VERSION = 1
"""Versions of the encoded columns; a change invalidates the cache."""


class Encoder:
    """Tokenises the sentence columns of record batches with a Hugging Face tokenizer.

    The tokenizer is loaded on first use, because a cached corpus does not need it. ``path`` is the
    folder of the tokenizer. ``max_length`` includes the special tokens.

    Raises:
        InvalidValue: on first use, if ``max_length`` leaves no room beside the special tokens.
    """

    def __init__(self, path: str, max_length: int) -> None:
        self._path, self.max_length = path, max_length
        self.fingerprint = _fingerprint(Path(path))

    @cached_property
    def _tokenizer(self) -> Any:
        found: Any = transformers.AutoTokenizer.from_pretrained(self._path, trust_remote_code=False)
        special = found.num_special_tokens_to_add()
        if self.max_length <= special:
            raise InvalidValue("max_length", self.max_length, f"use at least {special + 1}")
        return found

    def __getstate__(self) -> dict[str, Any]:
        # with the tokenizer, because another node may not have its folder
        return {**vars(self), "_tokenizer": self._tokenizer}

    def table(self, batch: pa.RecordBatch) -> pa.Table:
        """Return ids of the batch's sentence columns, with the same names, and its labels."""
        names = sentence_columns(batch.schema)
        return _with_labels({name: self.column(batch.column(name)) for name in names}, batch)

    def column(self, texts: pa.Array) -> pa.ListArray:
        """Return the ids of each text, an empty list for a null.

        Each distinct text is tokenised once.
        """
        coded = pc.dictionary_encode(texts)
        sequences = [*self._sequences(coded.dictionary.to_pylist()), []]
        lengths = np.fromiter(map(len, sequences), dtype=np.int32, count=len(sequences))
        ids = np.fromiter((i for s in sequences for i in s), dtype=np.int32, count=lengths.sum())
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        places = pc.fill_null(coded.indices, len(sequences) - 1)
        return pa.ListArray.from_arrays(offsets, ids).take(places)

    def ends_texts(self) -> bool:
        """Return whether the tokenizer ends every text, also a truncated one, with a token."""
        (ids,) = self._sequences([""])
        ends = {self._tokenizer.eos_token_id, self._tokenizer.sep_token_id} - {None}
        return bool(ids) and ids[-1] in ends

    def _sequences(self, texts: list[str]) -> list[list[int]]:
        if not texts:  # the tokenizers of transformers fail on an empty list
            return []
        only_ids = {"return_attention_mask": False, "return_token_type_ids": False}
        found = self._tokenizer(texts, truncation=True, max_length=self.max_length, **only_ids)
        return list(found["input_ids"])


class OperationEncoder:
    """Tokenises record batches of ``Kind.OPERATIONS`` for an encoder and a decoder.

    ``max_length`` includes the special tokens.

    Raises:
        InvalidValue: ``max_length`` leaves no room beside the special tokens, or the decoder's
            tokenizer does not end texts with an end-of-sequence token.
    """

    def __init__(self, encoder_folder: str, decoder_folder: str, max_length: int) -> None:
        self._encoder = Encoder(encoder_folder, max_length)
        self._decoder = Encoder(decoder_folder, max_length)
        if not self._decoder.ends_texts():
            fix = "its tokenizer must end every text with an end-of-sequence token (BART, T5, BERT)"
            raise InvalidValue("decoder", decoder_folder, fix)
        self.max_length = max_length
        parts = f"{_OPERATIONS_VERSION} {self._encoder.fingerprint} {self._decoder.fingerprint}"
        self.fingerprint = sha256(parts.encode()).hexdigest()[:16]

    def table(self, batch: pa.RecordBatch) -> pa.Table:
        """Return columns of ids for the rows of the batch.

        ``operation`` has one id, the index in ``OPERATIONS``. ``first``, ``second`` (empty if null)
        and ``target`` have ids of the encoder's tokenizer, ``decoded`` has the target's ids of the
        decoder's tokenizer.
        """
        codes = pc.index_in(batch.column("operation"), pa.array(OPERATIONS)).cast(pa.int32())
        places = np.arange(batch.num_rows + 1, dtype=np.int32)
        names = ("first", "second", "target")
        columns = {name: self._encoder.column(batch.column(name)) for name in names}
        decoded = self._decoder.column(batch.column("target"))
        operation = pa.ListArray.from_arrays(places, codes)
        return pa.table({"operation": operation, **columns, "decoded": decoded})


class WordEncoder:
    """Encodes the sentence columns of record batches as rows of a word table.

    Words that the table lacks are left out, so that a list may be empty. ``max_length`` counts
    known words.

    Args:
        words: a ``sentune.encoders.words.WordTable``.

    Raises:
        InvalidValue: ``max_length`` is below 1, or the table has no fingerprint.
    """

    def __init__(self, words: Any, max_length: int) -> None:
        if max_length < 1:
            raise InvalidValue("max_length", max_length, "use at least 1")
        if not words.fingerprint:
            raise InvalidValue("fingerprint of the word table", "", "set it; the cache needs it")
        self._words = words
        self.max_length = max_length
        self.fingerprint = f"words{_WORDS_VERSION}-{words.fingerprint}"

    def table(self, batch: pa.RecordBatch) -> pa.Table:
        """Return word rows of the batch's sentence columns, with the same names, and its labels."""
        columns = {}
        for name in sentence_columns(batch.schema):
            found = self._words.ids(batch.column(name).to_pylist(), self.max_length)
            offsets = found.offsets.astype(np.int32)
            columns[name] = pa.ListArray.from_arrays(offsets, found.ids)
        return _with_labels(columns, batch)


_WEIGHTS = {".bin", ".h5", ".msgpack", ".onnx", ".ot", ".pt", ".safetensors"}


def _fingerprint(folder: Path) -> str:
    """Return a hash of a tokenizer: of its folder's files, except weights, and transformers'
    version."""
    kept = (file for file in folder.iterdir() if file.is_file() and file.suffix not in _WEIGHTS)
    content = {file.name: sha256(file.read_bytes()).hexdigest() for file in kept}
    content["transformers"] = version("transformers")
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
