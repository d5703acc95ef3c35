"""Baselines without a trained model on a study's corpora, and comparisons of the model to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from torch import Tensor

from sentune.corpora.prepare import Prepared
from sentune.corpora.schema import Corpus, Kind
from sentune.geometry.points import Points
from sentune.job.families.base import JobFamily
from sentune.report.paired import Floats, Hits, PairedTest
from sentune.tasks import (
    AmbiguousRte,
    DirectionTask,
    Generation,
    Result,
    Rte,
    Sts,
    Transfer,
    bag_of_words_direction,
    entailment_pairs,
    evaluate,
    tasks_for,
)
from sentune.tasks.sts import METRICS, bootstraps

BAG_OF_WORDS_ROWS = 300_000
"""Largest number of rows that the bag of words is trained on; NLI has 275,601 triplets."""


@dataclass(frozen=True)
class Baselines:
    """Metrics of the baselines.

    Attributes:
        values: ``task/rule`` -> fraction.
        hits: ``task/rule`` -> correctness of each item, of rules that are measured by accuracy.
        scored: similarities and scores of averaged word vectors, as in ``Result.scored``.
    """

    values: dict[str, float]
    hits: dict[str, Hits]
    scored: dict[str, Floats]

    def compared(self, model: Result) -> dict[str, dict[str, dict[str, float]]]:
        """Compare a model's accuracies and correlations to the rules of the same task.

        Returns:
            Metric of the model -> rule -> the fields of a ``PairedTest``.
        """
        found = {
            metric: {
                rule: asdict(PairedTest.of(ours, hits))
                for rule, hits in self.hits.items()
                if rule.partition("/")[0] == metric.partition("/")[0]
            }
            for metric, ours in model.hits.items()
        }
        for task, (similarities, scores) in model.scored.items():
            for metric in METRICS if task in self.scored else ():
                own, rule = f"{task}/{metric}", f"{task}/word_average_{metric}"
                both = np.stack([similarities, self.scored[task][0]])
                ours, words = bootstraps(both, scores, metric)
                difference = model.metrics[own] - self.values[rule]
                paired = PairedTest.of_bootstraps(difference, ours, words, len(scores))
                found[own] = {rule: asdict(paired)}
        return found


def baselines_of(job: JobFamily, judged: Sequence[Corpus]) -> Baselines:
    """Return the baselines of a prepared job on the corpora that its model is judged on."""
    return baselines(job.sources.get("corpus"), judged, job.word_averages(), job.dev)


def baselines(
    train: Prepared | None,
    judged: Sequence[Corpus],
    average: Callable[[Sequence[str]], Tensor] | None = None,
    dev: Sequence[Corpus] = (),
) -> Baselines:
    """Return the baselines on corpora.

    RTE and transfer tasks have the majority class, direction tasks LENGTH, generation tasks a copy
    of the input, and STS and RTE averaged word vectors with a threshold chosen on dev. If the
    training corpus has triplets, direction tasks also have a bag of words, trained on at most
    ``BAG_OF_WORDS_ROWS`` random rows, which shows how much the words alone give away.

    Args:
        train: the training corpus; None: no bag of words.
        judged: corpora that the baselines are measured on.
        average: N sentences -> averages of their word vectors, [N, D]; None: these are not
            measured.
        dev: corpora on which thresholds are chosen.
    """
    values, hits, scored = dict[str, float](), dict[str, Hits](), dict[str, Floats]()
    tasks = tasks_for(*judged, dev=dev)
    for task in tasks:
        if isinstance(task, Transfer):
            values[f"{task.name}/majority"] = task.majority()
        if isinstance(task, Generation | AmbiguousRte):
            values |= task.baselines()
        if isinstance(task, Rte | DirectionTask):
            hits |= task.rules()
        if isinstance(task, DirectionTask) and train is not None and train.kind is Kind.TRIPLETS:
            pairs = list(zip(task.pairs.first, task.pairs.second, strict=True))
            rows = entailment_pairs(train.sample(BAG_OF_WORDS_ROWS))
            hits[f"{task.name}/bag_of_words"] = bag_of_words_direction(rows, pairs)
    values |= {name: float(found.mean()) for name, found in hits.items()}
    if average is not None:
        sides = [[t for t in s if isinstance(t, Sts | Rte)] for s in (tasks_for(*dev), tasks)]
        chosen = evaluate(sides[0], average, Points()).readouts
        result = evaluate(sides[1], average, Points(), chosen)
        own = {task.name for task in sides[1]}
        names = {n: "/word_average_".join(n.rsplit("/", 1)) for n in result.metrics | result.hits}
        for name, value in result.metrics.items():
            if name.rpartition("/")[0] in own and not name.endswith("/majority"):
                values[names[name]] = value
        hits |= {names[name]: found for name, found in result.hits.items()}
        scored = result.scored
    return Baselines(values, hits, scored)
