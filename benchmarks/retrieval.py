"""Exact search: passages in blocks against sentence-transformers' semantic_search over them all.

Both find the nearest passages by cosine. Ours takes them in blocks that are made on the way, as a
corpus is encoded; semantic_search needs all embeddings at once, so they count as its memory.

python benchmarks/retrieval.py
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from measure import Work, measure_all, options, report, time_ratio
from torch import Tensor

from sentune.geometry import Points
from sentune.tasks.nearest_passages import NearestPassages


def _queries(count: int, width: int) -> Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(1))


def _blocks(count: int, width: int, block: int) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(0)
    for start in range(0, count, block):
        yield torch.randn(min(block, count - start), width, generator=generator)


def whole(queries: int, passages: int, width: int, depth: int, block: int) -> Work:
    """semantic_search over the concatenated blocks."""
    from sentence_transformers.util import semantic_search

    asked = _queries(queries, width)

    def work() -> object:
        return semantic_search(asked, torch.cat(list(_blocks(passages, width, block))), top_k=depth)

    return work


def in_blocks(queries: int, passages: int, width: int, depth: int, block: int) -> Work:
    """NearestPassages over the same blocks."""
    asked = _queries(queries, width)

    def work() -> object:
        found = NearestPassages(asked, Points(), depth=depth)
        for part in _blocks(passages, width, block):
            found.add(part)
        return found.hits()

    return work


def main() -> None:
    o = options(
        __doc__, queries=1_000, passages=200_000, width=128, depth=100, block=8_192, repeats=3
    )
    sizes = (o.queries, o.passages, o.width, o.depth, o.block)
    ways = {"semantic_search": partial(whole, *sizes), "in blocks": partial(in_blocks, *sizes)}
    rows = measure_all(ways, repeats=o.repeats, threads=o.threads)
    title = (
        f"The {o.depth} nearest of {o.passages:,} passages for {o.queries:,} queries, "
        f"d = {o.width}, with the making of the passages"
    )
    report(title, rows, o.threads)
    torch.set_num_threads(o.threads)
    ratio = time_ratio(whole(*sizes), in_blocks(*sizes), o.repeats)
    print(f"semantic_search against blocks, calls alternating: {ratio:.2f}")


if __name__ == "__main__":
    main()
