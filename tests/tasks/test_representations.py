"""All representations of a model judged at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
import torch
from scipy.stats import pearsonr
from torch import Tensor

from sentune.corpora.schema import SCHEMAS, Corpus, Kind
from sentune.errors import InvalidValue, TrialFailed
from sentune.readouts.sweep import SWEEP_FILE
from sentune.tasks import Result, Sts
from sentune.tasks.base import Model
from sentune.tasks.variants import TABLE, evaluate_representations

NAMES = ("ensemble", "ensemble_scaled", "z_en", "z_de", "decoded", "words")


def sts(name: str = "sts", subsets: bool = False) -> Sts:
    rng = np.random.default_rng(len(name))
    columns = {
        "sentence1": [f"first {i}" for i in range(30)],
        "sentence2": [f"second {i}" for i in range(30)],
        "score": rng.uniform(0, 5, 30),
        "subset": [("a", "b")[i % 2] if subsets else None for i in range(30)],
    }
    table = pa.table(columns, schema=SCHEMAS[Kind.SCORED_PAIRS])
    return Sts(Corpus(spec=name, kind=Kind.SCORED_PAIRS, table=table, fingerprint=""), name)


def represent(sentences: Sequence[str]) -> dict[str, Tensor]:
    """Random vectors of each sentence and name."""
    found = {}
    for place, name in enumerate(NAMES):
        seeds = [sum(map(ord, sentence)) * 10 + place for sentence in sentences]
        rows = [np.random.default_rng(seed).normal(size=4) for seed in seeds]
        found[name] = torch.from_numpy(np.stack(rows))
    return found


def correlation(task: Sts, name: str) -> float:
    vectors = represent([*task.pairs.first, *task.pairs.second])[name].numpy()
    a, b = vectors[:30], vectors[30:]
    cosine = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    return float(pearsonr(cosine, task.scores).statistic)


def test_the_best_of_four_is_chosen_and_all_are_in_the_table() -> None:
    tasks = [sts(), sts("sts14", subsets=True)]
    result = evaluate_representations(tasks, represent)
    for task in tasks:
        found = {name: correlation(task, name) for name in NAMES}
        best = max(NAMES[:4], key=found.__getitem__)
        assert result.readouts[f"{task.name}/representation"] == best
        assert result.metrics[f"{task.name}/pearson"] == pytest.approx(found[best])
        assert result.metrics[f"{task.name}/words_pearson"] == pytest.approx(found["words"])
        table = result.tables[f"{task.name}/{TABLE}"]
        assert {n: row["pearson"] for n, row in table.items()} == pytest.approx(found)
        swept = result.tables[f"{task.name}/{SWEEP_FILE}"]
        assert swept["axes"] == {"representation": list(NAMES[:4])}
        assert swept["values"] == pytest.approx([found[name] for name in NAMES[:4]])
    assert "pearson_mean" in result.tables[f"sts14/{TABLE}"]["z_en"]
    assert "sts14/a/spearman" in result.metrics
    assert result.readouts["representation"] == result.readouts["sts/representation"]
    means = [np.mean([correlation(task, name) for task in tasks]) for name in NAMES[:4]]
    of_others = evaluate_representations(tasks, represent, objective="mr/accuracy")
    assert of_others.readouts["representation"] == NAMES[int(np.argmax(means))]


@pytest.mark.parametrize(
    ("grid", "chosen"), [(("z_de",), "z_de"), (("z_en", "ensemble"), "ensemble")]
)
def test_without_sts_the_grid_chooses(grid: tuple[str, ...], chosen: str) -> None:
    result = evaluate_representations([], represent, grid=grid, objective="rte/auc")
    assert result.readouts["representation"] == chosen


@pytest.mark.parametrize("metric", ["spearman", "pearson_mean", "spearman_weighted_mean"])
def test_the_objective_s_metric_and_task_choose(metric: str) -> None:
    tasks = [sts("sts12", subsets=True), sts("sts14", subsets=True)]
    result = evaluate_representations(tasks, represent, objective=f"sts14/{metric}")
    for task in tasks:
        rows = result.tables[f"{task.name}/{TABLE}"]
        best = max(NAMES[:4], key=lambda name: rows[name][metric])
        assert result.readouts[f"{task.name}/representation"] == best
        assert result.metrics[f"{task.name}/{metric}"] == rows[best][metric]
        assert result.tables[f"{task.name}/{SWEEP_FILE}"]["metric"] == f"{task.name}/{metric}"
    assert result.readouts["representation"] == result.readouts["sts14/representation"]


def test_readouts_are_applied_as_they_are() -> None:
    task = sts("sts15")
    cases: list[tuple[dict[str, str], str]] = [
        ({"sts15/representation": "z_de", "sts/representation": "z_en"}, "z_de"),
        ({"sts/representation": "z_en", "representation": "z_de"}, "z_en"),
        ({"representation": "decoded"}, "decoded"),
        ({}, "ensemble"),
    ]
    for readouts, name in cases:
        result = evaluate_representations([task], represent, readouts=readouts)
        assert result.metrics["sts15/pearson"] == pytest.approx(correlation(task, name))
        assert result.readouts == {"sts15/representation": name}
        assert f"sts15/{SWEEP_FILE}" not in result.tables


def test_other_tasks_get_what_is_shipped_and_the_features() -> None:
    class Other:
        name = "other"

        def run(self, model: Model, readouts: object = None) -> Result:
            del readouts
            assert model.features is not None
            same = torch.equal(model.embed(["x"]), represent(["x"])["z_de"])
            return Result(metrics={"other/width": float(model.features(["x"]).shape[1] + same)})

    def features(sentences: Sequence[str], *, representation: str) -> Tensor:
        return torch.zeros(len(sentences), {"ensemble": 9, "z_en": 4}[representation])

    for named, width in (({}, 9), ({"features": "z_en"}, 4)):
        readouts = {"representation": "z_de", **named}
        found = evaluate_representations([Other()], represent, features=features, readouts=readouts)
        assert found.metrics == {"other/width": width + 1.0}


def test_names_that_are_none_and_values_that_are_not_finite() -> None:
    with pytest.raises(InvalidValue, match="choose among ensemble"):
        evaluate_representations([sts()], represent, grid=("z",))
    with pytest.raises(InvalidValue, match="choose among ensemble"):
        evaluate_representations([sts()], represent, readouts={"representation": "z"})

    def broken(sentences: Sequence[str]) -> dict[str, Tensor]:
        return {name: values * torch.nan for name, values in represent(sentences).items()}

    with pytest.raises(TrialFailed, match="not finite"):
        evaluate_representations([sts()], broken)
