"""Records learning curves of every point of a grid, which ``search_quality.py`` replays.

    SENTUNE_DATA=FOLDER python -m benchmarks.record_surface [NAME ...]

GumbelCSE and InterSent from scratch, each on a built-in and on a real corpus: 64 points of four
settings, one seed each, judged on the same rows of dev at 1/27, 1/9 and 1/3 of the budget and at
its end. Each surface is a file of ``benchmarks/surfaces``; a point that it has already is not
trained again.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from search_spaces import gumbel, intersent
from sentune.corpora.batches import Held, SharedSource
from sentune.methods import find
from sentune.study.space import Choice, SearchSpace
from sentune.study.store.trial_codec import key
from sentune.tasks import read_judged
from sentune.training.group import Group
from sentune.training.inputs import InputMaker
from sentune.training.loop import train
from sentune.training.trial import TrialSpec

FOLDER = Path(__file__).parent / "recorded"
TINY = "builtin:tiny?layers=1&width=128"


def grid(space: SearchSpace, **axes: Choice) -> SearchSpace:
    """The space of these settings; every other one is as a start from scratch has it."""
    held = {**space.published, **space.starts["scratch"]}
    fixed = {name: value for name, value in held.items() if name not in axes}
    return replace(
        space, settings=axes, fixed=fixed, published={}, starts={}, live=frozenset(), readouts={}
    )


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What is trained on which rows, ``$`` being the folder of data, and judged on which."""

    space: SearchSpace
    corpus: str
    dev: str
    encoder: str
    budget: int = 2_430
    decoder: str = ""

    @property
    def milestones(self) -> tuple[int, ...]:
        return tuple(self.budget // share for share in (27, 9, 3, 1))


GUMBEL = grid(
    gumbel.SPACE,
    batch_size=Choice(32, 64, 128, 256),
    learning_rate=Choice(1e-4, 3e-4, 1e-3, 3e-3),
    dimension=Choice(8, 16),
    pooling=Choice("cls", "mean"),
)
INTERSENT = grid(
    intersent.SPACE,
    batch_size=Choice(32, 64, 128, 256),
    learning_rate=Choice(1e-3, 3e-3),
    decoder_learning_rate=Choice(3e-4, 1e-3, 2e-3, 5e-3),
    alpha=Choice(0.01, 1.0),
)
SETUPS = {
    "gumbel-builtin": Setup(
        space=GUMBEL,
        corpus="builtin:nli",
        dev="builtin:nli?split=dev",
        encoder="builtin:tiny",
    ),
    "gumbel-snli": Setup(
        space=GUMBEL,
        corpus="snli:$/snli/snli_1.0_train_first100k.jsonl.gz",
        dev="snli:$/snli/snli_1.0_dev.jsonl.gz?rows=0:1500",
        encoder="builtin:tiny",
    ),
    "intersent-builtin": Setup(
        space=INTERSENT,
        corpus="builtin:operations",
        dev="builtin:operations?split=dev&rows=0:100",
        encoder=TINY,
        decoder=TINY,
    ),
    "intersent-compression": Setup(
        space=INTERSENT,
        corpus="compression:$/sentence-compression/pairs.tsv?rows=0:8000",
        dev="compression:$/sentence-compression/pairs.tsv?rows=8000:8100",
        encoder=TINY,
        decoder=TINY,
    ),
}


def record(name: str, data: str, cache: Path) -> None:
    """Trains what the file of a surface lacks; writes after each point."""
    setup, out = SETUPS[name], FOLDER / f"{name}.json.gz"
    curves: dict[str, Any] = {}
    if out.is_file():
        curves = json.loads(gzip.decompress(out.read_bytes()))["curves"]
    out.parent.mkdir(exist_ok=True)
    kind = find(setup.space.method)
    inputs = InputMaker(max_length=32, cache=cache, limit=20_000).inputs(
        kind, (setup.corpus.replace("$", data),), encoder=setup.encoder, decoder=setup.decoder
    )
    spec = TrialSpec(
        trial="0000",
        method=setup.space.method,
        settings={},
        encoder=inputs.folder,
        corpus=Held(SharedSource(inputs.tokens[0].load())),
        dev=Held([read_judged(setup.dev.replace("$", data))]),
        max_examples=setup.budget,
        milestones=setup.milestones,
        objective=setup.space.objective,
    )
    for point in setup.space.points():
        if key(point) in curves:
            continue
        settings = {**setup.space.fixed, **point, "max_length": 32}
        said = train(replace(spec, settings=settings), Group.single())
        curves[key(point)] = {p.examples: round(p.metrics[spec.objective], 5) for p in said}
        print(name, key(point), curves[key(point)], flush=True)
        content = {"budget": setup.budget, "objective": spec.objective, "curves": curves}
        out.write_bytes(gzip.compress(json.dumps(content).encode(), mtime=0))


def main() -> None:
    """Records the surfaces that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=[*SETUPS], help=f"of {', '.join(SETUPS)}")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with TemporaryDirectory() as cache:
        for name in given.names:
            record(name, os.environ.get("SENTUNE_DATA", ""), Path(cache))


if __name__ == "__main__":
    main()
