"""Tasks on corpora made by hand, with geometries made of plain tensors."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
import torch
from scipy.stats import pearsonr, spearmanr
from torch import Tensor

from sentune.corpora.schema import SCHEMAS, Corpus, Kind
from sentune.errors import CorpusError, InvalidValue, TrialFailed
from sentune.tasks import DirectionTask, Rte, Sts, Task, evaluate, tasks_for
from sentune.tasks.choose import make_tasks


class Cosine:
    """Points on a circle: the embedding is an angle."""

    symmetric = True

    def entails_table(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        return torch.cos(premises - hypotheses.T)

    def entails(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        return torch.cos(premises - hypotheses).squeeze(1)

    def direction(self, first: Tensor, second: Tensor) -> Tensor:
        return torch.zeros(len(first))

    def extent(self, embeddings: Tensor) -> Tensor:
        return torch.zeros(len(embeddings))

    def entailing_is_larger(self) -> bool:
        return False


class Intervals:
    """Boxes in one dimension: [low, high] rows, P(h | p) = overlap / length of p."""

    symmetric = False

    def __init__(self, *, larger: bool = False) -> None:
        self.larger = larger

    def entails_table(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        return torch.stack([self.entails(p.expand_as(hypotheses), hypotheses) for p in premises])

    def entails(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        low = torch.maximum(premises[:, 0], hypotheses[:, 0])
        high = torch.minimum(premises[:, 1], hypotheses[:, 1])
        return (high - low).clamp(min=0) / (premises[:, 1] - premises[:, 0])

    def direction(self, first: Tensor, second: Tensor) -> Tensor:
        return self.extent(second) - self.extent(first)

    def extent(self, embeddings: Tensor) -> Tensor:
        return (embeddings[:, 1] - embeddings[:, 0]).log()

    def entailing_is_larger(self) -> bool:
        return self.larger


def corpus(kind: Kind, *rows: tuple[object, ...], spec: str = "snli:made") -> Corpus:
    schema = SCHEMAS[kind]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    table = pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema)
    return Corpus(spec=spec, kind=kind, table=table, fingerprint="made")


def labelled(*rows: tuple[str, str, str, str | None], spec: str = "snli:made") -> Corpus:
    return corpus(Kind.LABELLED_PAIRS, *rows, spec=spec)


def embed_by(table: dict[str, list[float]]) -> object:
    return lambda sentences: torch.tensor([table[s] for s in sentences])


BOXES = {
    "a poodle": [0.0, 1.0],
    "a dog": [0.0, 2.0],
    "an animal": [0.0, 8.0],
    "a cat": [5.0, 6.0],
    "a thing that is": [0.0, 8.0],
}
NLI = labelled(
    ("a poodle", "a dog", "entailment", None),
    ("a dog", "an animal", "entailment", None),
    ("a dog", "a cat", "contradiction", None),
    ("an animal", "a poodle", "neutral", None),
    ("an animal", "a thing that is", "entailment", None),
)


def test_rte_finds_the_threshold_on_dev_and_applies_it_on_test() -> None:
    dev = evaluate([Rte(NLI)], embed_by(BOXES), Intervals())
    assert dev.metrics["rte/accuracy"] == dev.metrics["rte/auc"] == 1
    assert dev.metrics["rte/average_precision"] == 1
    assert dev.metrics["rte/majority"] == pytest.approx(3 / 5)
    assert 1 / 8 < dev.readouts["rte/threshold"] < 1
    assert dev.tables["rte/counts.json"] == {"pairs": 5, "entailment": 3}
    moved = BOXES | {"a cat": [1.0, 2.0], "a dog": [1.0, 2.1]}
    test = evaluate([Rte(NLI)], embed_by(moved), Intervals(), dev.readouts)
    assert test.readouts["rte/threshold"] == dev.readouts["rte/threshold"]
    # P(cat | dog) = 1/1.1 is now over the threshold, P(dog | poodle) = 0 below it
    assert test.metrics["rte/accuracy"] == pytest.approx(3 / 5)


def test_rte_without_a_threshold_has_no_accuracy_and_says_why() -> None:
    result = evaluate([Rte(NLI)], embed_by(BOXES), Intervals(), {})
    assert "rte/accuracy" not in result.metrics
    assert "development" in result.skipped["rte/accuracy"]
    assert result.metrics["rte/auc"] == 1


def test_another_corpus_is_judged_by_the_first_ones_threshold() -> None:
    tasks = make_tasks([("rte", NLI), ("rte", NLI)])
    assert [task.name for task in tasks] == ["rte", "rte-snli"]
    result = evaluate(tasks, embed_by(BOXES), Intervals(), {"rte/threshold": -1.0})
    assert result.metrics["rte/accuracy"] == result.metrics["rte-snli/accuracy"] == 3 / 5
    own = {"rte/threshold": -1.0, "rte-snli/threshold": 0.5}
    result = evaluate(tasks, embed_by(BOXES), Intervals(), own)
    assert result.metrics["rte-snli/accuracy"] == 1


def test_direction_counts_ties_half_and_reports_by_length() -> None:
    result = evaluate([DirectionTask(NLI)], embed_by(BOXES), Intervals())
    metrics = result.metrics
    assert metrics["direction/accuracy"] == pytest.approx(2.5 / 3)
    assert metrics["direction/by_similarity"] == metrics["direction/by_extent"]
    assert metrics["direction/length"] == pytest.approx(1 / 3)  # "a poodle" alone is longer
    assert metrics["direction/length_words"] == pytest.approx((0.5 + 0.5 + 0) / 3)
    assert metrics["direction/shorter"] == 1
    assert metrics["direction/longer"] == metrics["direction/not_shorter"] == 0.75
    assert "direction/equal" not in metrics
    assert result.readouts == {"direction/by": "similarity"}
    counts = {"longer": 2, "equal": 0, "shorter": 1, "not_shorter": 2}
    assert result.tables["direction/counts.json"] == {
        "pairs": 3,
        "exclude": "both-ways",
        **counts,
    }


def test_direction_by_extent_follows_the_geometry() -> None:
    upside_down = evaluate([DirectionTask(NLI)], embed_by(BOXES), Intervals(larger=True)).metrics
    assert upside_down["direction/by_similarity"] == pytest.approx(2.5 / 3)
    assert upside_down["direction/by_extent"] == pytest.approx(0.5 / 3)


def test_the_rule_is_chosen_on_dev_and_applied_on_test() -> None:
    class Contrary(Intervals):
        def direction(self, first: Tensor, second: Tensor) -> Tensor:
            return -super().direction(first, second)

    dev = evaluate([DirectionTask(NLI)], embed_by(BOXES), Contrary())
    assert dev.readouts == {"direction/by": "extent"}
    assert dev.metrics["direction/accuracy"] == dev.metrics["direction/by_extent"] > 0.5
    test = evaluate(
        [DirectionTask(NLI)], embed_by(BOXES), Contrary(), {"direction/by": "similarity"}
    )
    assert test.metrics["direction/accuracy"] == test.metrics["direction/by_similarity"] < 0.5
    with pytest.raises(InvalidValue, match="direction/by"):
        evaluate([DirectionTask(NLI)], embed_by(BOXES), Contrary(), {"direction/by": "luck"})


def test_points_have_no_direction_and_say_so() -> None:
    angles = {sentence: [0.1 * i] for i, sentence in enumerate(BOXES)}
    result = evaluate(tasks_for(NLI), embed_by(angles), Cosine())
    assert not [name for name in result.metrics if name.startswith("direction")]
    assert "symmetric" in result.skipped["direction"]
    assert "rte/auc" in result.metrics


def test_pairs_that_entail_each_other_are_left_out_or_kept_by_name() -> None:
    sick = labelled(
        ("a poodle", "a dog", "entailment", "neutral"),
        ("a dog", "a poodle", "entailment", "entailment"),
        ("a dog", "a cat", "neutral", "entailment"),
        spec="sick:made",
    )
    assert len(DirectionTask(sick).pairs) == 1
    assert len(DirectionTask(sick, exclude="none").pairs) == 2
    with pytest.raises(InvalidValue, match="exclude"):
        DirectionTask(sick, exclude="some")  # type: ignore[arg-type]


def test_sts_correlates_the_mean_of_both_directions() -> None:
    pairs = [("a poodle", "a dog", 4.0), ("a dog", "a cat", 1.0), ("an animal", "a cat", 2.5)]
    pairs += [("a thing that is", "an animal", 5.0), ("a poodle", "an animal", 3.0)]
    rows = [(*pair, None) for pair in pairs]
    result = evaluate([Sts(corpus(Kind.SCORED_PAIRS, *rows))], embed_by(BOXES), Intervals())

    def overlap(a: str, b: str) -> float:
        (p, q), (r, s) = BOXES[a], BOXES[b]
        return max(min(q, s) - max(p, r), 0)

    def similarity(a: str, b: str) -> float:
        (p, q), (r, s) = BOXES[a], BOXES[b]
        return overlap(a, b) * (1 / (q - p) + 1 / (s - r)) / 2

    said, scores = [similarity(a, b) for a, b, _ in pairs], [score for *_, score in pairs]
    assert result.metrics["sts/spearman"] == pytest.approx(spearmanr(said, scores).statistic)
    assert result.metrics["sts/pearson"] == pytest.approx(pearsonr(said, scores).statistic)


def test_sts_with_equal_similarities_is_zero_and_says_why() -> None:
    apart = {s: [20.0 * i, 20.0 * i + 1] for i, s in enumerate(BOXES)}
    pairs = [("a poodle", "a dog", 4.0, None), ("a dog", "a cat", 1.0, None)]
    result = evaluate([Sts(corpus(Kind.SCORED_PAIRS, *pairs))], embed_by(apart), Intervals())
    assert result.metrics == {"sts/spearman": 0, "sts/pearson": 0}
    assert "same" in result.skipped["sts"]


def test_each_sentence_is_encoded_once() -> None:
    seen: list[str] = []

    def embed(sentences: list[str]) -> Tensor:
        seen.extend(sentences)
        return torch.tensor([BOXES[s] for s in sentences])

    scored = corpus(
        Kind.SCORED_PAIRS, ("a dog", "a cat", 1.0, None), ("a dog", "an animal", 2.0, None)
    )
    result = evaluate(tasks_for(NLI, scored, NLI), embed, Intervals())
    assert sorted(seen) == sorted(BOXES)
    assert {name.split("/")[0] for name in result.metrics} == {
        "rte",
        "direction",
        "sts",
        "rte-snli",
        "direction-snli",
    }


def test_many_pairs_are_compared_in_chunks() -> None:
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(300)]
    rows = [(words[i], words[j], "entailment", None) for i, j in rng.integers(0, 300, (20_000, 2))]
    boxes = {w: [0.0, float(1 + i)] for i, w in enumerate(words)}
    task = DirectionTask(labelled(*rows))
    result = evaluate([task], embed_by(boxes), Intervals())
    expected = np.mean([np.sign(boxes[b][1] - boxes[a][1]) / 2 + 0.5 for a, b, *_ in rows])
    assert result.metrics["direction/accuracy"] == pytest.approx(float(expected))


def test_a_broken_embedding_ends_the_trial_and_names_a_sentence() -> None:
    broken = BOXES | {"a cat": [math.nan, 1.0]}
    with pytest.raises(TrialFailed, match="a cat"):
        evaluate([Rte(NLI)], embed_by(broken), Intervals())


def test_names_stay_apart_and_tell_the_format() -> None:
    sick = labelled(
        ("a", "b", "entailment", "neutral"), ("b", "c", "neutral", "neutral"), spec="sick:made"
    )
    names = [task.name for task in tasks_for(NLI, sick, sick)]
    assert names == [
        *("rte", "direction", "rte-sick", "direction-sick"),
        *("rte-sick-2", "direction-sick-2"),
    ]


def test_a_test_corpus_has_the_name_that_its_format_has_on_dev() -> None:
    sick, other, third = (
        labelled(("a", "b", "entailment", None), ("b", "c", "neutral", None), spec=f"{name}:made")
        for name in ("sick", "multinli", "multinli")
    )

    def rte(*test: Corpus) -> list[str]:
        made = tasks_for(*test, dev=(NLI, sick))
        return [task.name for task in made if task.name.startswith("rte")]

    assert rte(sick) == ["rte-sick"]
    assert rte(sick, NLI) == ["rte-sick", "rte"]
    assert rte(other) == ["rte"]
    assert rte(other, third, NLI) == ["rte-multinli", "rte-multinli-2", "rte"]
    rows = ("a", "b", 1.0, None), ("a", "c", 2.0, None)
    scored = [
        corpus(Kind.SCORED_PAIRS, *rows, spec=f"sts:/of-2024/STS20{year}?rows=0:2000")
        for year in (12, 13)
    ]
    assert [task.name for task in tasks_for(scored[1], dev=scored[:1])] == ["sts13"]


def test_a_corpus_poses_only_the_tasks_that_its_rows_allow() -> None:
    def names(made: Corpus) -> list[str]:
        return [task.name for task in tasks_for(made)]

    assert names(labelled(("a", "b", "entailment", None))) == ["direction"]
    both_ways = labelled(("a", "b", "entailment", "entailment"), ("a", "c", "neutral", None))
    assert names(both_ways) == ["rte"]
    with pytest.raises(CorpusError, match="no task"):
        names(labelled(("a", "b", "neutral", None)))
    with pytest.raises(CorpusError, match="sentences have no task"):
        names(corpus(Kind.SENTENCES, ("a",)))


@pytest.mark.parametrize("make", [Rte, DirectionTask, Sts])
def test_a_task_refuses_a_corpus_of_another_kind(make: type[Task]) -> None:
    with pytest.raises(CorpusError, match=r"snli:made: .* needs"):
        make(corpus(Kind.SENTENCES, ("a",)))


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(InvalidValue, match="rte, direction, ambiguous-rte, csts, sts"):
        make_tasks([("parsing", NLI)])
