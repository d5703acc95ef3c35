"""Fitting a method on word vectors: one pass, one decomposition, every readout swept.

A trial is over with its first and only milestone. What differs between trials is the source of the
word vectors and a few settings; components and units are read out of the one fit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pyarrow as pa

from sentune.beats import beating
from sentune.corpora.prepare import Prepared
from sentune.corpora.reduce import accumulate, accumulate_here
from sentune.corpora.schema import Statistics
from sentune.errors import InvalidValue
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
    """Run a closed-form trial; with its words it is a ``Program``.

    Each worker passes over its rows of the corpus, all add up what they found, and the first one
    decomposes and judges.

    Args:
        spec: its corpus opens to a table of sentences, or, if they are too many to share, to a
            ``Prepared`` corpus.
        words: source of word vectors, as the setting names it -> opens to its ``WordTable``.
    """
    # one worker reads for all: a reader sets damaged checkpoints aside
    reads = spec.directory and group.is_first
    last = group.broadcast_object(CheckpointStore.of(spec).last_progress() if reads else None)
    if last is not None:  # its report may have been lost with a killed driver
        yield last.again(lambda folder: None)  # its checkpoint is there already
        return
    started = time.perf_counter()
    model = build_closed_form(spec.method, words[str(spec.settings[VECTORS])].open(), spec.settings)
    asked = spec.readouts.get(model.axis.name) or model.grid()
    grid = model.within(asked)
    if not grid:
        fix = f"these word vectors allow {model.title} none of them"
        raise InvalidValue(f"readout {model.axis.name}", list(asked), fix)
    statistics = _passed_over(spec.corpus.open(), group, model.statistics)
    statistics.all_reduce(group)
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


def _passed_over(
    corpus: pa.Table | Prepared, group: Group, make: Callable[[], Statistics]
) -> Statistics:
    """Return the statistics of this worker's rows."""
    if isinstance(corpus, Prepared):
        sizes = corpus.manifest["shards"]
        return accumulate(corpus.cached, sizes, make, group.slice(sum(sizes)))
    own = group.slice(len(corpus))
    texts = corpus.column("text").slice(own.start, own.stop - own.start)
    parts = (texts.slice(at, BATCH).to_pylist() for at in range(0, len(texts), BATCH))
    return accumulate_here(parts, make)
