"""What rules reach on a study's corpora, and a model against them on the same pairs."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import binom, pearsonr, spearmanr

from search_spaces.infersent import SPACE as INFERSENT
from search_spaces.intersent import SPACE as INTERSENT
from sentune.corpora.formats import read
from sentune.corpora.schema import Kind
from sentune.encoders import load, load_tokenizer, prepare
from sentune.encoders.transformer import word_averages
from sentune.encoders.words.table import tokenise
from sentune.geometry.gaussians import Gaussians
from sentune.geometry.points import Points
from sentune.job.baselines import Baselines, baselines, baselines_of
from sentune.job.families import make_job
from sentune.job.options import OperationOptions, WordOptions, parse
from sentune.report.paired import PairedTest
from sentune.tasks import Result, Rte, evaluate, tasks_for
from tests.job.test_probing import QUIET

DECODER = "builtin:tiny?layers=1&width=16"
DEV, TEST = "builtin:nli?split=dev", "builtin:nli?split=test"


def test_a_paired_test_is_mcnemars_with_the_standard_error_of_the_difference() -> None:
    rng = np.random.default_rng(0)
    model, rule = rng.choice([0, 0.5, 1], 200, p=[0.2, 0.1, 0.7]), rng.choice([0.0, 1.0], 200)
    found = PairedTest.of(model, rule)
    assert found.items == 200
    assert found.difference == pytest.approx(model.mean() - rule.mean())
    each = [a - b for a, b in zip(model, rule, strict=True)]
    mean = sum(each) / 200
    variance = sum((x - mean) ** 2 for x in each) / 199
    assert found.standard_error == pytest.approx(math.sqrt(variance / 200))
    told = found.better + found.worse
    assert (found.better, told) == (sum(x > 0 for x in each), sum(x != 0 for x in each))
    tail = binom.cdf(min(found.better, found.worse), told, 0.5)
    assert found.p == pytest.approx(min(1.0, 2 * tail))


def test_equal_answers_are_not_told_apart() -> None:
    assert PairedTest.of(np.ones(5), np.ones(5)).p == 1
    assert PairedTest.of(np.ones(1), np.zeros(1)).standard_error == 0


def test_a_models_hits_give_its_accuracies_and_are_compared_with_the_rules_of_their_task() -> None:
    corpora = [read(TEST, Kind.LABELLED_PAIRS)]
    torch.manual_seed(0)
    rows: dict[str, torch.Tensor] = {}

    def embed(sentences: list[str]) -> torch.Tensor:
        return torch.stack([rows.setdefault(s, torch.randn(8)) for s in sentences])

    result = evaluate(tasks_for(*corpora), embed, Gaussians())
    assert set(result.hits) == {
        "direction/accuracy", "direction/by_similarity", "direction/by_extent", "rte/accuracy",
    }  # fmt: skip
    for name, hits in result.hits.items():
        assert hits.mean() == pytest.approx(result.metrics[name]), name
    rules = baselines(None, corpora)
    for name, hits in rules.hits.items():
        assert hits.mean() == pytest.approx(result.metrics[name]), name
    found = rules.compared(result)
    assert set(found["direction/accuracy"]) == {"direction/length", "direction/length_words"}
    assert set(found["rte/accuracy"]) == {"rte/majority"}
    against = found["rte/accuracy"]["rte/majority"]
    lead = result.metrics["rte/accuracy"] - result.metrics["rte/majority"]
    assert against["difference"] == pytest.approx(lead)
    assert against["items"] == len(result.hits["rte/accuracy"])


def test_two_correlations_are_compared_by_the_same_bootstraps_of_their_pairs() -> None:
    random = np.random.default_rng(1)
    scores = random.integers(0, 6, 80).astype(float)
    model, words = (scores + random.normal(scale=s, size=80).round(1) for s in (1.0, 1.6))
    names = {"pearson": pearsonr, "spearman": spearmanr}
    own = {f"sts/{n}": float(of(model, scores).statistic) for n, of in names.items()}
    rule = {f"sts/word_average_{n}": float(of(words, scores)[0]) for n, of in names.items()}
    result = Result(metrics=own, scored={"sts": np.stack([model, scores])})
    found = Baselines(rule, {}, {"sts": np.stack([words, scores])}).compared(result)
    assert set(found) == {"sts/pearson", "sts/spearman"}
    for name, of in names.items():
        test = found[f"sts/{name}"][f"sts/word_average_{name}"]
        again = np.random.default_rng(0)
        draws = [again.integers(0, 80, 80) for _ in range(1000)]
        each = [of(model[d], scores[d])[0] - of(words[d], scores[d])[0] for d in draws]
        assert test["standard_error"] == pytest.approx(np.std(each, ddof=1))
        assert test["difference"] == own[f"sts/{name}"] - rule[f"sts/word_average_{name}"]
        assert (test["better"], test["items"]) == (sum(x > 0 for x in each), 80)
        assert test["p"] == pytest.approx(2 * (1 + sum(x <= 0 for x in each)) / 1001)
    same = Baselines(rule, {}, result.scored).compared(result)
    assert same["sts/pearson"]["sts/word_average_pearson"]["p"] == 1


SENTENCES = ["a dog runs", "two dogs sleep", "a cat sleeps"] * 20


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a small encoder with weights."""
    torch.manual_seed(0)
    drawn = prepare("builtin:tiny", SENTENCES, tmp_path_factory.mktemp("drawn"))
    folder = tmp_path_factory.mktemp("encoder")
    load(drawn).save(folder)
    load_tokenizer(drawn).save(folder)
    return str(folder)


def test_word_averages_are_means_of_input_embeddings_without_special_tokens(encoder: str) -> None:
    average, model = word_averages(encoder), load(encoder).model
    assert average is not None
    tokenizer = load_tokenizer(encoder)
    sentences = ["a dog runs", "", "two dogs"]
    found = average(sentences)
    for sentence, row in zip(sentences, found, strict=True):
        ids = tokenizer.encode([sentence], 64)[0][1:-1]
        own = [model.get_input_embeddings().weight[int(i)] for i in ids]
        expected = torch.stack(own).mean(0) if own else torch.zeros_like(row)
        torch.testing.assert_close(row, expected)
    assert average([]).shape == (0, found.shape[1])


def test_an_encoder_that_is_trained_from_scratch_has_no_word_averages(tmp_path: Path) -> None:
    assert word_averages(prepare("builtin:tiny", SENTENCES, tmp_path)) is None


def test_averages_are_a_rule_of_sts_and_rte_with_the_threshold_of_dev(encoder: str) -> None:
    average = word_averages(encoder)
    assert average is not None
    dev, test = [read(DEV, Kind.LABELLED_PAIRS)], [read(TEST, Kind.LABELLED_PAIRS)]
    found = baselines(None, test, average, dev)
    chosen = evaluate([t for t in tasks_for(*dev) if isinstance(t, Rte)], average, Points())
    (rte,) = [t for t in tasks_for(*test) if isinstance(t, Rte)]
    expected = evaluate([rte], average, Points(), chosen.readouts)
    for name in ("accuracy", "auc", "average_precision"):
        assert found.values[f"rte/word_average_{name}"] == expected.metrics[f"rte/{name}"]
    assert found.hits["rte/word_average_accuracy"].mean() == expected.metrics["rte/accuracy"]
    assert not [name for name in found.values if name.startswith("direction/word_average")]


def test_a_rule_takes_the_threshold_of_the_dev_corpus_of_its_format(encoder: str) -> None:
    average = word_averages(encoder)
    dev = [read(DEV, Kind.LABELLED_PAIRS), read(TEST, Kind.LABELLED_PAIRS)]
    dev[0] = replace(dev[0], spec="snli:dev")
    found = baselines(None, dev[1:], average, dev)
    assert "rte-builtin/majority" in found.values
    assert "rte/majority" not in found.values
    expected = baselines(None, dev, average, dev).values
    assert found.values == {name: value for name, value in expected.items() if "-builtin/" in name}


def test_a_job_on_word_vectors_has_the_averages_of_these(tmp_path: Path) -> None:
    given = {"corpus": "builtin:nli?size=96", "dev": [f"{DEV}&size=60"], "storage": str(tmp_path)}
    vectors = tmp_path / "vectors.txt"
    words = {"a": [1.0, 0.5], "dog": [0.0, 2.0], "runs": [3.0, -1.0]}
    vectors.write_text("".join(f"{word} {x} {y}\n" for word, (x, y) in words.items()))
    given |= {"vectors": f"glove:{vectors}", "set": ["batch_size=16"]}
    job = make_job(parse(given, WordOptions(study="words")), INFERSENT)
    job.prepare(QUIET)
    average = job.word_averages()
    assert average is not None
    sentences = ["A dog runs", "an unknown dog", ""]
    known = [[words[w] for w in map(str.lower, tokenise(s)) if w in words] for s in sentences]
    expected = np.array([np.mean(rows, 0) if rows else (0, 0) for rows in known])
    np.testing.assert_allclose(average(sentences).numpy(), expected, atol=1e-7)
    assert "rte/word_average_auc" in baselines_of(job, job.dev).values


def test_a_job_of_operations_has_the_averages_of_its_encoder(encoder: str, tmp_path: Path) -> None:
    given = {"corpus": ["builtin:operations?size=96"], "encoder": encoder, "decoder": DECODER}
    given |= {"dev": ["builtin:operations?size=40&split=dev"], "storage": str(tmp_path)}
    job = make_job(parse({**given, "set": ["batch_size=16"]}, OperationOptions()), INTERSENT)
    job.prepare(QUIET)
    average, expected = job.word_averages(), word_averages(encoder)
    assert average is not None
    assert expected is not None
    torch.testing.assert_close(average(SENTENCES), expected(SENTENCES), rtol=0, atol=0)
