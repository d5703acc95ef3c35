"""Fit a method on word vectors in one pass and one decomposition, and sweep its readout.

Such a trial has a single milestone. Trials differ in the source of the word vectors and a few
settings; all numbers of components or units are readouts of one fit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pyarrow as pa

from sentune.beats import beat, beating
from sentune.corpora.prepare import Prepared
from sentune.corpora.reduce import accumulate, accumulate_here
from sentune.corpora.schema import Statistics
from sentune.errors import InvalidValue
from sentune.methods.closed_form import ClosedForm
from sentune.readouts.grid import Grid
from sentune.tasks import tasks_for
from sentune.tasks.base import Result
from sentune.tasks.variants import evaluate_family
from sentune.training.checkpoints import CheckpointStore
from sentune.training.closed_form_model import VECTORS, build_closed_form, save_fit
from sentune.training.group import Group
from sentune.training.trial import Opens, Progress, TrialSpec

BATCH = 4_096


def fit_and_sweep(
    spec: TrialSpec, group: Group, *, words: Mapping[str, Opens]
) -> Iterator[Progress]:
    """Run a closed-form trial; with ``words`` bound it is a ``Program``.

    Each worker accumulates the statistics of its part of the corpus, the statistics are summed over
    the workers, and the first worker solves and evaluates.

    Args:
        spec: specification whose corpus opens to a table of sentences, or to a ``Prepared`` corpus
            if it is too large to share.
        words: value of the setting ``vectors`` -> handle that opens to its ``WordTable``.

    Raises:
        InvalidValue: the width of the word vectors allows no value of the readout's grid.
        TrialFailed: the sentences are too few for the fit.
    """
    # only the first worker reads, because reading may rename damaged checkpoints
    reads = spec.directory and group.is_first
    last = group.broadcast_object(CheckpointStore.of(spec).last_progress() if reads else None)
    if last is not None:  # reported again, because a killed driver may have lost the report
        yield last.again(lambda folder: None)  # the checkpoint exists already
        return
    started = time.perf_counter()
    source = str(spec.settings[VECTORS])
    model = build_closed_form(spec.method, words[source].open(), spec.settings)
    grid = grid_within(model, spec.readouts.get(model.axis.name) or model.grid(), source)
    statistics = _accumulated(spec.corpus.open(), group, model.statistics)
    statistics.all_reduce(group)
    beat(examples=spec.max_examples)
    result = Result()
    if group.is_first:
        with beating("training"):
            model.solve(statistics, max(int(v) for v in grid), str(group.device))
        metric = spec.objective.partition("/")[2]
        result = evaluate_family(
            tasks_for(*spec.dev.open()), model.similarities, model.axis.name, grid, metric
        )
    result = group.broadcast_object(result)
    seconds = time.perf_counter() - started
    yield Progress(
        examples=spec.max_examples,
        metrics={**result.metrics, "train/seconds": seconds},
        readouts=result.readouts,
        tables=result.tables,
        final=True,
        save=partial(save_fit, model),
    )


def grid_within(model: ClosedForm, asked: Grid, source: str) -> Grid:
    """Return the values of the readout's grid that the word vectors, those of ``source``, allow.

    Raises:
        InvalidValue: they allow none of the values.
    """
    if grid := model.within(asked):
        return grid
    width = model.words.vectors.shape[1]
    fix = f"values must be below {width}, the width of the word vectors {source}"
    raise InvalidValue(f"readout {model.axis.name}", list(asked), fix)


def _accumulated(
    corpus: pa.Table | Prepared, group: Group, make: Callable[[], Statistics]
) -> Statistics:
    """Return the statistics of this worker's part of the corpus."""
    if isinstance(corpus, Prepared):
        sizes = corpus.manifest["shards"]
        return accumulate(corpus.cached, sizes, make, group.slice(sum(sizes)), group.world_size)
    own = group.slice(len(corpus))
    texts = corpus.column("text").slice(own.start, own.stop - own.start)
    parts = (texts.slice(at, BATCH).to_pylist() for at in range(0, len(texts), BATCH))
    return accumulate_here(parts, make, group.world_size)
