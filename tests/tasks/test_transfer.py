"""Transfer tasks against SentEval's protocols written out with scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict, cross_validate

from sentune.corpora.schema import Kind
from sentune.errors import CorpusError, InvalidValue, TrialFailed
from sentune.geometry import Points
from sentune.tasks import ModelTask, evaluate
from sentune.tasks.base import Model
from sentune.tasks.transfer import Transfer, TransferRelatedness
from sentune.tasks.transfer_solver import RELATEDNESS_GRID
from tests.tasks.transfer_scenes import Memory, corpus, sentences

FOLDS = 3
C, C_OF_FOLDS = [2.0**t for t in range(-2, 4)], [2.0**t for t in range(-1, 6)]
Row = tuple[str, str | None, str, str | None]


def labelled(split: str | None, count: int, start: int, labels: Sequence[str]) -> list[Row]:
    rng = np.random.default_rng(start)
    texts = sentences(count, start)
    return [(text, None, str(rng.choice(list(labels))), split) for text in texts]


def learnt(rows: Sequence[Row], width: int = 12) -> Memory:
    """Embeddings that tell the label, though not wholly."""
    places = {label: i for i, label in enumerate(sorted({row[2] for row in rows}))}
    return Memory(width, {row[0]: 1.5 * places[row[2]] for row in rows})


def arrays(rows: Sequence[Row], memory: Memory) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels in the order in which SentEval makes folds."""
    ordered = sorted(rows, key=lambda row: (len(row[0].split()), row[2]))
    features = np.array([memory.vector(row[0]) for row in ordered], dtype=np.float64)
    return features, np.array([row[2] for row in ordered])


def exact(strength: float = 1.0) -> LogisticRegression:
    return LogisticRegression(C=strength, tol=1e-8, solver="newton-cholesky")


def search(grid: list[float]) -> GridSearchCV:
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=1111)
    return GridSearchCV(exact(), {"C": grid}, cv=folds)


def test_without_splits_inner_folds_choose_for_each_outer_fold() -> None:
    rows = labelled(None, 150, 0, ["negative", "positive"])
    memory = learnt(rows)
    result = Transfer(corpus(Kind.CLASSIFIED, rows), "mr", folds=FOLDS).run(memory.model())
    outer = StratifiedKFold(FOLDS, shuffle=True, random_state=1111)
    found = cross_validate(search(C), *arrays(rows, memory), cv=outer, return_estimator=True)
    table = result.tables["mr/regularisation.json"]
    assert result.metrics["mr/accuracy"] == pytest.approx(found["test_score"].mean())
    np.testing.assert_allclose(table["accuracy"], found["test_score"])
    assert table["chosen"] == [model.best_params_["C"] for model in found["estimator"]]
    inner = np.mean([m.cv_results_["mean_test_score"] for m in found["estimator"]], axis=0)
    np.testing.assert_allclose(table["dev_accuracy"], inner)
    best = np.mean([model.best_score_ for model in found["estimator"]])
    assert result.metrics["mr/dev_accuracy"] == pytest.approx(best)
    assert result.tables["mr/counts.json"] == {"pairs": 150}
    assert (result.readouts, result.skipped, table["unconverged"]) == ({}, {}, 0)


def test_folds_of_train_choose_where_there_is_a_test_split() -> None:
    rows = [*labelled("train", 120, 0, "abc"), *labelled("test", 50, 200, "abc")]
    memory = learnt(rows)
    result = Transfer(corpus(Kind.CLASSIFIED, rows), "trec", folds=FOLDS).run(memory.model())
    model = search(C_OF_FOLDS).fit(*arrays(rows[:120], memory))
    assert result.metrics == pytest.approx(
        {
            "trec/accuracy": model.score(*arrays(rows[120:], memory)),
            "trec/dev_accuracy": model.best_score_,
        }
    )
    assert result.readouts == {"trec/C": model.best_params_["C"]}
    table = result.tables["trec/regularisation.json"]
    np.testing.assert_allclose(table["dev_accuracy"], model.cv_results_["mean_test_score"])
    assert (table["chosen_on"], table["judged_on"]) == ("3 folds of train", "test")
    assert result.tables["trec/counts.json"] == {"pairs": 50, "dev_accuracy": 120}


def test_dev_chooses_where_there_are_three_splits() -> None:
    rows = [
        *labelled("train", 90, 0, "ab"),
        *labelled("dev", 40, 200, "ab"),
        *labelled("test", 40, 300, "ab"),
    ]
    memory = learnt(rows)
    result = Transfer(corpus(Kind.CLASSIFIED, rows), "sst2").run(memory.model())
    parts = [arrays([r for r in rows if r[3] == split], memory) for split in ("train", "dev")]
    models = [exact(c).fit(*parts[0]) for c in C]
    scores = [model.score(*parts[1]) for model in models]
    chosen = int(np.argmax(scores))
    assert result.readouts == {"sst2/C": C[chosen]}
    assert result.metrics["sst2/dev_accuracy"] == pytest.approx(scores[chosen])
    test = arrays(rows[130:], memory)
    assert result.metrics["sst2/accuracy"] == pytest.approx(models[chosen].score(*test))
    assert result.tables["sst2/regularisation.json"]["dev_accuracy"] == pytest.approx(scores)


def test_pairs_are_seen_by_distance_and_product_and_f1_is_of_the_last_class() -> None:
    rng = np.random.default_rng(0)
    texts = sentences(60)
    rows = []
    for place in range(160):
        first, second = rng.choice(texts, 2)
        label = "paraphrase" if int(first.split()[0][1:]) % 2 else "different"
        rows.append((str(first), str(second), label, "train" if place < 120 else "test"))
    memory = Memory(5)
    result = Transfer(corpus(Kind.CLASSIFIED, rows), "mrpc", folds=FOLDS).run(memory.model())

    def pairs(split: str) -> tuple[np.ndarray, np.ndarray]:
        def key(row: tuple) -> tuple:
            return (len(row[0].split()), len(row[1].split()), row[2])

        chosen = sorted((row for row in rows if row[3] == split), key=key)
        u, v = (np.array([memory.vector(row[side]) for row in chosen]) for side in (0, 1))
        return np.c_[np.abs(u - v), u * v].astype(float), np.array([r[2] for r in chosen])

    model = search(C_OF_FOLDS).fit(*pairs("train"))
    features, gold = pairs("test")
    f1 = f1_score(gold, model.predict(features), pos_label="paraphrase")
    assert result.metrics["mrpc/f1"] == pytest.approx(f1)
    assert result.metrics["mrpc/accuracy"] == pytest.approx(model.score(features, gold))
    assert len(memory.calls) == 1
    assert sorted(memory.calls[0]) == sorted({text for row in rows for text in row[:2]})


def test_without_a_test_split_dev_is_judged_and_the_result_says_so() -> None:
    rows = [*labelled("train", 90, 0, "ab"), *labelled("dev", 40, 200, "ab")]
    task = Transfer(corpus(Kind.CLASSIFIED, rows), "sick-e", folds=FOLDS)
    result = task.run(learnt(rows).model())
    model = search(C_OF_FOLDS).fit(*arrays(rows[:90], learnt(rows)))
    score = model.score(*arrays(rows[90:], learnt(rows)))
    assert result.metrics["sick-e/accuracy"] == pytest.approx(score)
    assert result.tables["sick-e/regularisation.json"]["judged_on"] == "dev"
    assert "judged on dev" in result.skipped["sick-e/test"]


def test_train_alone_is_judged_by_the_folds_that_choose() -> None:
    rows = labelled("train", 120, 0, "abc")
    memory = learnt(rows)
    task = Transfer(corpus(Kind.CLASSIFIED, rows), "trec", folds=FOLDS)
    result = task.run(memory.model())
    features, gold = arrays(rows, memory)
    chosen = search(C_OF_FOLDS).fit(features, gold).best_params_["C"]
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=1111)
    unseen = cross_val_predict(exact(chosen), features, gold, cv=folds)
    assert result.metrics["trec/accuracy"] == pytest.approx(float(np.mean(unseen == gold)))
    assert result.readouts == {"trec/C": chosen}
    assert result.tables["trec/regularisation.json"]["judged_on"] == "3 folds of train"
    assert result.tables["trec/counts.json"] == {"pairs": 120, "dev_accuracy": 120}
    assert "judged on 3 folds of train" in result.skipped["trec/test"]
    assert task.majority() == pytest.approx(max(np.unique(gold, return_counts=True)[1]) / 120)


def test_a_strength_among_the_readouts_is_applied() -> None:
    rows = [*labelled("train", 90, 0, "ab"), *labelled("test", 40, 200, "ab")]
    task, memory = Transfer(corpus(Kind.CLASSIFIED, rows), "trec", folds=FOLDS), learnt(rows)
    result = task.run(memory.model(), {"trec/C": 0.01, "mrpc/C": 3})
    model = exact(0.01).fit(*arrays(rows[:90], memory))
    score = model.score(*arrays(rows[90:], memory))
    assert result.metrics["trec/accuracy"] == pytest.approx(score)
    assert result.readouts == {"trec/C": 0.01}
    for bad in (0, -1.0, "1", float("inf")):
        with pytest.raises(InvalidValue, match=r"trec/C: .* use a positive number"):
            task.run(memory.model(), {"trec/C": bad})


def test_features_are_asked_for_where_the_model_has_them() -> None:
    rows = [*labelled("train", 60, 0, "ab"), *labelled("test", 20, 200, "ab")]
    task, memory = Transfer(corpus(Kind.CLASSIFIED, rows), "trec", folds=FOLDS), learnt(rows)
    other = Memory(3)
    assert isinstance(task, ModelTask)
    result = evaluate([task], other.embed, Points(), features=memory.embed)
    assert result.metrics == task.run(memory.model()).metrics
    assert not other.calls


def test_majority_is_the_commonest_label_of_train() -> None:
    single = [("s1", None, "a", None), ("s2", None, "b", None), ("s3", None, "b", None)] * 9
    assert Transfer(corpus(Kind.CLASSIFIED, single), folds=2).majority() == pytest.approx(2 / 3)
    test = [("s1", None, "a", "test")] * 3 + [("s1", None, "b", "test")]
    split = [(*row[:3], "train") for row in single] + test
    assert Transfer(corpus(Kind.CLASSIFIED, split), folds=2).majority() == pytest.approx(1 / 4)


def of(split: str | None, **labels: int) -> list[Row]:
    return [("s1", None, label, split) for label, count in labels.items() for _ in range(count)]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (of(None, a=30), r"all have one label; .* \(30 a\)"),
        (of("train", a=9) + of("test", a=9, b=9), "all have one label"),
        (of("train", a=9, b=9) + of("test", c=9), "no training row is labelled c"),
        (of("train", a=9, b=2) + of("test", a=9), "3 folds need .* than 9 a, 2 b"),
        (of(None, a=9, b=4), "3 folds need .* than 9 a, 4 b"),
        (of("dev", a=9, b=9) + of("test", a=9), "must be rows of train"),
        (of("train", a=9, b=9) + of(None, a=9), "some rows have no split"),
        ([("s1", "s2", "a", None), *of(None, a=9, b=9)], "18 of 19 rows are single sentences"),
    ],
)
def test_degenerate_rows_are_refused(rows: list[Row], reason: str) -> None:
    with pytest.raises(CorpusError, match=reason):
        Transfer(corpus(Kind.CLASSIFIED, rows), folds=3)


def test_the_fewest_rows_of_a_label_are_enough() -> None:
    rows = [(f"s{i}", *row[1:]) for i, row in enumerate(of(None, a=9, b=5))]
    task = Transfer(corpus(Kind.CLASSIFIED, rows), folds=3)
    assert 0 <= task.run(Memory(2).model()).metrics["transfer/accuracy"] <= 1


def test_another_kind_and_too_few_folds_are_refused() -> None:
    related = corpus(Kind.RELATED, [("s1", "s2", 1.0, "train"), ("s1", "s2", 2.0, "dev")])
    with pytest.raises(CorpusError, match="mr needs classified-sentences, not related-pairs"):
        Transfer(related, "mr")
    with pytest.raises(InvalidValue, match="folds: 1 cannot be used"):
        TransferRelatedness(related, folds=1)


def test_embeddings_that_are_not_finite_are_told() -> None:
    task = Transfer(corpus(Kind.CLASSIFIED, of(None, a=9, b=9)), folds=2)
    model = Model(embed=lambda s: torch.full((len(s), 2), torch.nan), geometry=Points())
    with pytest.raises(TrialFailed, match="not finite"):
        task.run(model)


def related(counts: dict[str, int]) -> list[tuple]:
    """Pairs whose score, from 0 to 5 in steps of a tenth, falls with their distance."""
    rng = np.random.default_rng(0)
    texts, memory, rows = sentences(80), Memory(6), []
    for split, count in counts.items():
        for _ in range(count):
            first, second = (str(text) for text in rng.choice(texts, 2))
            gap = np.abs(memory.vector(first) - memory.vector(second))[:3].sum()
            rows.append((first, second, round(float(np.clip(6 - gap / 2, 0, 5)), 1), split))
    return rows


def expected_scores(train: list[tuple], judged: list[tuple], strength: float) -> np.ndarray:
    """Each training row stands once for each of its integers, weighted by what it has of it."""
    memory = Memory(6)

    def features(rows: list[tuple]) -> np.ndarray:
        u, v = (np.array([memory.vector(row[side]) for row in rows]) for side in (0, 1))
        return np.c_[np.abs(u - v), u * v].astype(float)

    scores = np.array([row[2] for row in train])
    low = np.floor(scores)
    model = exact(strength)
    weights = np.r_[low + 1 - scores, scores - low]
    kept = weights > 0
    doubled = np.r_[features(train), features(train)][kept]
    model.fit(doubled, np.r_[low, low + 1][kept], sample_weight=weights[kept])
    return model.predict_proba(features(judged)) @ model.classes_


def test_relatedness_is_the_expected_score_with_the_strength_that_dev_chose() -> None:
    rows = related({"train": 150, "dev": 50, "test": 60})
    train, dev, test = rows[:150], rows[150:200], rows[200:]
    memory = Memory(6)
    result = TransferRelatedness(corpus(Kind.RELATED, rows), "sick-r").run(memory.model())
    dev_scores = [row[2] for row in dev]
    found = [pearsonr(expected_scores(train, dev, c), dev_scores)[0] for c in RELATEDNESS_GRID]
    table = result.tables["sick-r/regularisation.json"]
    np.testing.assert_allclose(table["dev_pearson"], found, atol=2e-3)
    chosen = result.readouts["sick-r/C"]
    assert table["dev_pearson"][RELATEDNESS_GRID.index(chosen)] == pytest.approx(
        max(found), abs=2e-3
    )
    predicted, gold = expected_scores(train, test, chosen), [row[2] for row in test]
    expected = {
        "sick-r/pearson": pearsonr(predicted, gold)[0],
        "sick-r/spearman": spearmanr(predicted, gold)[0],
        "sick-r/mse": np.mean((predicted - gold) ** 2),
        "sick-r/dev_pearson": max(found),
    }
    assert result.metrics == pytest.approx(expected, abs=5e-3)
    assert result.tables["sick-r/counts.json"] == {"pairs": 60, "dev_pearson": 50}
    assert len(memory.calls) == 1


def test_relatedness_without_a_test_split_is_judged_on_dev() -> None:
    rows = related({"train": 150, "dev": 50})
    task = TransferRelatedness(corpus(Kind.RELATED, rows), "sick-r", folds=FOLDS)
    result = task.run(Memory(6).model(), {"sick-r/C": 4.0})
    predicted = expected_scores(rows[:150], rows[150:], 4.0)
    r = pearsonr(predicted, [row[2] for row in rows[150:]])[0]
    assert result.metrics["sick-r/pearson"] == pytest.approx(r, abs=2e-3)
    assert "judged on dev" in result.skipped["sick-r/test"]
    assert result.tables["sick-r/regularisation.json"]["chosen_on"] == "3 folds of train"


def test_relatedness_of_train_alone_is_judged_by_its_folds() -> None:
    task = TransferRelatedness(corpus(Kind.RELATED, related({"train": 150})), "sick-r", folds=FOLDS)
    result = task.run(Memory(6).model(), {"sick-r/C": 4.0})
    assert result.metrics["sick-r/pearson"] == pytest.approx(
        result.metrics["sick-r/dev_pearson"], abs=0.05
    )
    assert result.tables["sick-r/regularisation.json"]["judged_on"] == "3 folds of train"


def test_equal_predictions_count_0_and_are_told() -> None:
    rows = related({"train": 40, "dev": 20, "test": 20})
    model = Model(embed=lambda s: torch.ones(len(s), 3), geometry=Points())
    result = TransferRelatedness(corpus(Kind.RELATED, rows), "sick-r").run(model)
    assert (result.metrics["sick-r/pearson"], result.metrics["sick-r/spearman"]) == (0, 0)
    assert "all predictions are the same" in result.skipped["sick-r"]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (related({"dev": 40}), "must be rows of train"),
        (related({"train": 5, "dev": 5}), "3 folds need 6 rows of train, there are 5"),
        (related({"train": 9}) + [("s1", "s2", 2.0, "dev")] * 4, "scores of dev are all the same"),
        (
            [("s1", "s2", 2.0, "train")] * 9
            + [("s1", "s2", 3.0, "train")] * 3
            + related({"dev": 4}),
            r"9 of 12 scores of train are 2.0, so a fold may be left with a single score",
        ),
    ],
)
def test_degenerate_scores_are_refused(rows: list[tuple], reason: str) -> None:
    with pytest.raises(CorpusError, match=reason):
        TransferRelatedness(corpus(Kind.RELATED, rows), folds=3)
