"""A step of a group of any size is one worker's: with dropout, the same masks by shard; without,
each distinct sentence once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

from sentune.corpora import Kind, read
from sentune.corpora.batches import SharedSource
from sentune.corpora.encode import Encoder
from sentune.encoders import prepare
from sentune.methods import find
from sentune.training.gradients import densify_gradients
from sentune.training.group import Group
from sentune.training.recipes import build, recipe_of, sentences
from sentune.training.settings import split
from sentune.training.step import Stepper, make_optimizer
from tests.forked import join_group, run_group
from tests.rounding import rounding
from tests.token_tables import tokenise

SHARDS = 4
CASES = [
    (rows, micro, dropout)
    for rows, micro in ((16, None), (13, None), (16, 3), (3, None), (2, None))
    for dropout in (0.3, 0.0)
]
"""Rows of a batch, the micro-batch, and the encoder's dropout."""
WIDTH, INNER, LENGTH, TEMPERATURE = 16, 32, 32, 0.05
# three similarities of each row, through attention (four maps, scores, means), an inner layer,
# the pooler and the head
ERROR = rounding(6 * WIDTH + LENGTH + 2 * INNER + 2 * WIDTH, 3 * 16 / TEMPERATURE)


def gradient(
    folder: str, rows: int, micro: int | None, dropout: float, group: Group
) -> torch.Tensor:
    """[P] of a step on a tiny encoder."""
    corpus = read("builtin:nli?size=24", Kind.TRIPLETS)
    texts = [text for column in corpus.table.itercolumns() for text in column.to_pylist()]
    tiny = f"builtin:tiny?layers=1&width={WIDTH}&heads=2&inner={INNER}&dropout={dropout}"
    encoder = prepare(tiny, texts, Path(folder, "encoders"))
    kind = find("gumbel")
    given = {
        "dimension": 4,
        "precision": "float64",
        "temperature": TEMPERATURE,
        "batch_size": rows,
        "micro_batch": micro or "none",
    }
    own, settings = split(given, kind)
    method = build(kind, own, settings, encoder, 1).train()
    backward = recipe_of(kind).backward(method, settings, group, encoder)
    stepper = Stepper(method, make_optimizer(method, settings), settings, group, backward)
    source = SharedSource(tokenise(corpus, Encoder(encoder, LENGTH), None))
    columns = next(source.batches(rows, 0, 0)).columns
    stepper.step(columns, factor=1.0, seed=(5, 7))
    return torch.cat([p.grad.flatten() for p in method.parameters() if p.grad is not None])


def work(rank: int, workers: int, folder: str) -> None:
    group = join_group(rank, workers, folder, "cpu", SHARDS)
    sparse: list[int] = []

    def densify(parameters: Iterable[torch.nn.Parameter]) -> None:
        kept = [p for p in parameters if p.grad is not None]
        sparse.append(sum(p.grad.is_sparse for p in kept))
        densify_gradients(kept)

    sentences.densify_gradients = densify  # in this process, which is the test's own
    found = [gradient(f"{folder}/{rank}", *case, group) for case in CASES]
    assert sparse == [1] * len(CASES), "the table of embeddings alone, after workers have met"
    torch.save(found, Path(folder, f"{rank}.pt"))


@pytest.mark.parametrize("workers", [2, pytest.param(3, marks=pytest.mark.long)])
def test_a_step_is_the_same_on_any_number_of_workers(workers: int, tmp_path: Path) -> None:
    run_group(work, (workers, str(tmp_path)), workers)
    for place, case in enumerate(CASES):
        expected = gradient(str(tmp_path / "own"), *case, Group.single("cpu", SHARDS))
        other = gradient(str(tmp_path / "own"), *case, Group.single("cpu"))
        drops_out = (other - expected).abs().max() > 1e-3 * expected.abs().max()
        assert drops_out == bool(case[-1])
        for rank in range(workers):
            found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)[place]
            assert (found - expected).abs().max() < ERROR * expected.abs().max().clamp(min=1)


@pytest.mark.parametrize(("rows", "workers"), [(16, 3), (5, 2), (3, 3), (64, 4), (9, 1)])
def test_a_batch_has_as_many_shards_whoever_has_them(rows: int, workers: int) -> None:
    shares = Group(0, workers, "cpu", SHARDS).shards_by_worker(rows)
    assert len(shares) == workers
    assert [shard for share in shares for shard in share] == list(range(min(rows, SHARDS)))
    assert min(map(len, shares)) > 0
