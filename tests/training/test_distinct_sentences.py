"""A sentence that occurs several times in a batch is encoded once where nothing is dropped out."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sentune.corpora import read
from sentune.corpora.batches import SharedSource
from sentune.corpora.encode import Encoder
from sentune.encoders import TextEncoder, prepare
from sentune.methods import find
from sentune.training.group import Group
from sentune.training.recipes import build, recipe_of
from sentune.training.recipes.base import Rows
from sentune.training.recipes.sentences import SentenceBackward
from sentune.training.settings import split
from tests.token_tables import tokenise

TINY = "builtin:tiny?layers=1&width=16&heads=2&inner=32"
ROWS = 32


def corpus(name: str) -> str:
    if name == "builtin":
        return "builtin:nli?size=96"
    data = os.environ.get("SENTUNE_DATA")
    if not data:
        pytest.skip("set SENTUNE_DATA to the folder of data sets with SNLI")
    return f"snli:{data}/snli/snli_1.0_train_first100k.jsonl.gz?premises=0:40"


def prepared(
    name: str, method: str, folder: Path, group: Group, micro: int | None = None
) -> tuple[SentenceBackward, dict[str, Rows]]:
    """A method's backward pass, and a batch: SNLI's duplicates, or rows twice."""
    kind = find(method)
    found = read(corpus(name), kind.kind)
    texts = [text for column in found.table.itercolumns() for text in column.to_pylist()]
    encoder = prepare(TINY, texts, folder / "encoders")
    given = {"precision": "float64", "batch_size": ROWS, "micro_batch": micro or "none"}
    own, settings = split(given, kind)
    trained = build(kind, own, settings, encoder, 1).train()
    backward = recipe_of(kind).backward(trained, settings, group, encoder)
    assert isinstance(backward, SentenceBackward)
    source = SharedSource(tokenise(found, Encoder(encoder, 64), None))
    columns = next(source.batches(ROWS, 0)).columns
    if name == "builtin":
        columns = {
            k: [r for r in rows[: ROWS // 2] for _ in range(2)] for k, rows in columns.items()
        }
    return backward, columns


def step(
    name: str, method: str, folder: Path, group: Group, micro: int | None = None
) -> tuple[Tensor, Tensor, int]:
    """Loss, gradients [P] and encoded sentences of a batch."""
    backward, columns = prepared(name, method, folder, group, micro)
    trained = backward.method
    group.streams.start(1)
    loss = backward(columns)
    parts, *_ = backward._divide(columns, ROWS)
    grads = [p.grad for p in trained.parameters() if p.grad is not None]
    assert not any(grad.is_sparse for grad in grads)
    return loss, torch.cat([g.flatten() for g in grads]), sum(len(p.chunk.input_ids) for p in parts)


@pytest.mark.parametrize("name", ["builtin", "snli"])
@pytest.mark.parametrize("method", ["simcse", "gauss", "gumbel"])
def test_loss_and_gradient_are_those_of_the_plain_form(
    name: str, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [(shards, micro) for shards in (0, 3) for micro in (None, 5)]
    run = partial(step, name, method, tmp_path)
    found = [run(Group.single("cpu", shards), micro) for shards, micro in cases]
    monkeypatch.setattr(TextEncoder, "drops_out", lambda self: True)
    monkeypatch.setattr(TextEncoder, "sparse_gradients", lambda self, *, on: None)
    loss, gradient, sentences = run(Group.single("cpu"))
    assert sentences == 3 * ROWS
    for merged_loss, merged_gradient, distinct in found:
        assert distinct < 3 * ROWS
        torch.testing.assert_close(merged_loss, loss, rtol=1e-12, atol=0)
        error = 1e-14 + 1e-11 * float(gradient.abs().max())  # gradients at the start are small
        torch.testing.assert_close(merged_gradient, gradient, rtol=0, atol=error)


def test_unsupervised_simcse_encodes_each_sentence_twice(tmp_path: Path) -> None:
    loss, _, sentences = step("builtin", "simcse-unsupervised", tmp_path, Group.single("cpu"))
    assert sentences == 2 * ROWS
    assert loss > 0


@pytest.mark.parametrize("name", ["builtin", "snli"])
@pytest.mark.parametrize("workers", [2, 3])
def test_workers_share_the_tokens_of_a_batch_evenly(
    name: str, workers: int, tmp_path: Path
) -> None:
    backward, columns = prepared(name, "gumbel", tmp_path, Group.single("cpu"))

    def work(rank: int, of: int) -> tuple[list[tuple[int, ...]], int, list[int]]:
        """A worker's sentences, its padded tokens, and how many sentences each worker has."""
        backward._group = Group(rank, of, "cpu")
        parts, sizes, places = backward._divide(columns, ROWS)
        assert len(places) == 3 * len(range(ROWS)[backward._group.slice(ROWS)])
        chunks = [part.chunk for part in parts]
        pairs = [pair for chunk in chunks for pair in zip(*chunk, strict=True)]
        rows = [tuple(row[mask.bool()].tolist()) for row, mask in pairs]
        return rows, sum(chunk.input_ids.numel() for chunk in chunks), sizes

    whole, padded, _ = work(0, 1)
    shares = [work(rank, workers) for rank in range(workers)]
    assert [row for rows, _, _ in shares for row in rows] == whole
    assert [len(rows) for rows, _, _ in shares] == shares[0][2] == shares[-1][2]
    tokens = [sum(map(len, rows)) for rows, _, _ in shares]
    assert max(tokens) - min(tokens) <= 2 * max(map(len, whole))
    assert sum(numbers for _, numbers, _ in shares) <= 1.1 * padded
