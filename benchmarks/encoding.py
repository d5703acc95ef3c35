"""Sentences that an ``Embedder`` encodes in a CPU second, against sentence-transformers' encode.

The same encoder as in ``contrastive_training.py``, mean pooling, float32, one thread, each with its
own batches (64 here, 32 there, their defaults). Two lists: distinct sentences, and a corpus' pairs
as they are, where a premise comes several times. Both take turns in one process. The limit is the
matrix products' alone, 2 operations a weight and a token that is no padding.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import torch
from contrastive_training import LENGTH, encoder_folder, layer_weights
from measure import in_turns, machine, product_speed, show, snli, table_of

from sentune.corpora import Kind, read
from sentune.embedder.embedder import Embedder
from sentune.encoders import load, load_tokenizer
from sentune.methods.simcse import Simcse, SimcseSettings

ROWS, TURNS = 400, 2


def encoders(folder: str) -> dict[str, Callable[[list[str]], object]]:
    """Name -> what encodes sentences."""
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(folder, device="cpu", model_kwargs={"dtype": torch.float32})
    theirs.max_seq_length = LENGTH
    method = Simcse(load(folder), SimcseSettings(pooling="mean"))
    tokenizer = load_tokenizer(folder)
    ours = Embedder(method, tokenizer, settings={"max_length": LENGTH}, readouts={}, device="cpu")
    return {"sentence-transformers": theirs.encode, "sentune": ours.encode}


def main() -> None:
    """Prints sentences a second and their ratios."""
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    spec = snli("dev")
    pairs = read(spec, Kind.LABELLED_PAIRS, limit=ROWS).table
    every = [text for name in ("premise", "hypothesis") for text in pairs[name].to_pylist()]
    lists = {"pairs as they are": every, "distinct": list(dict.fromkeys(every))}
    title = f"Encoding {spec.rsplit('/', 1)[-1]}, at most {LENGTH} tokens, float32"
    columns = ("", "sentences", "theirs / CPU s", "ours / CPU s", "times theirs", "limit")
    table = table_of(title, *columns, caption=machine(1))
    with tempfile.TemporaryDirectory() as scratch:
        folder = encoder_folder(Path(scratch), iter(every))
        ways, tokenizer = encoders(folder), load_tokenizer(folder)
        weights = layer_weights(folder)
    for name, sentences in lists.items():
        times = in_turns({way: partial(one, sentences) for way, one in ways.items()}, TURNS)
        theirs, ours = (len(sentences) / median(found) for found in times.values())
        tokens = sum(len(row) for row in tokenizer.encode(lists["distinct"], LENGTH))
        limit = len(sentences) * product_speed(384, 1536) / (2 * weights * tokens)
        cells = (f"{theirs:.0f}", f"{ours:.0f}", f"{ours / theirs:.2f}x", f"{limit:.0f}")
        table.add_row(name, str(len(sentences)), *cells)
    show(table)


if __name__ == "__main__":
    main()
