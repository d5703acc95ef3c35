"""Records learning curves of every point of a grid, to be replayed by ``search_peers.py``.

    python -m benchmarks.record_surface --out benchmarks/surfaces/gumbel-builtin.json.gz

GumbelCSE from scratch on the built-in corpus: 64 points (batch size, learning rate, dimension,
pooling), one seed each, judged on all of dev at 1/27, 1/9, 1/3 and the end of the budget. A point
that the file has already is not trained again.
"""

from __future__ import annotations

import argparse
import gzip
import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from search_spaces.gumbel import SPACE
from sentune.corpora.batches import Held, SharedSource
from sentune.methods import find
from sentune.study.space.space import Choice
from sentune.study.store.trial_codec import key
from sentune.tasks import read_judged
from sentune.training.group import Group
from sentune.training.inputs import InputMaker
from sentune.training.loop import train
from sentune.training.trial import TrialSpec

BUDGET = 2_430
GRID = replace(
    SPACE,
    settings={
        "batch_size": Choice(16, 32, 64, 128),
        "learning_rate": Choice(1e-4, 3e-4, 1e-3, 3e-3),
        "dimension": Choice(8, 16),
        "pooling": Choice("cls", "mean"),
    },
    fixed={k: v for k, v in SPACE.published.items() if k not in ("batch_size", "learning_rate")},
    published={},
    starts={},
    live=frozenset(),
)
FIXED = {"temperature", "intersection_temperature", "warmup", "reverse_weight"}


def main() -> None:
    """Trains what the file lacks; writes after each point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    curves: dict[str, Any] = {}
    if given.out.is_file():
        curves = json.loads(gzip.decompress(given.out.read_bytes()))["curves"]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as cache:
        maker = InputMaker(max_length=32, cache=Path(cache))
        inputs = maker.inputs(find("gumbel"), ("builtin:nli",), encoder="builtin:tiny")
        spec = TrialSpec(
            trial="0000",
            method="gumbel",
            settings={},
            encoder=inputs.folder,
            corpus=Held(SharedSource(inputs.tokens[0].load())),
            dev=Held([read_judged("builtin:nli?split=dev")]),
            max_examples=BUDGET,
            milestones=(BUDGET // 27, BUDGET // 9, BUDGET // 3, BUDGET),
            objective=SPACE.objective,
        )
        fixed = {name: SPACE.published[name] for name in FIXED}
        for point in GRID.points():
            if key(point) in curves:
                continue
            settings = {**fixed, "warmup": 0.1, **point, "max_length": 32}
            said = train(replace(spec, settings=settings), Group.single())
            curves[key(point)] = {p.examples: round(p.metrics[spec.objective], 5) for p in said}
            print(key(point), curves[key(point)], flush=True)
            content = {"budget": BUDGET, "objective": spec.objective, "curves": curves}
            given.out.write_bytes(gzip.compress(json.dumps(content).encode(), mtime=0))


if __name__ == "__main__":
    main()
