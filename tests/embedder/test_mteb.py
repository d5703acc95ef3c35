"""A model on MTEB's tasks: two small ones over local files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import average_precision_score

from sentune.embedder.embedder import Embedder
from sentune.encoders import prepare
from sentune.training.model import save_model, seal_model
from sentune.training.settings import TrainingSettings
from tests.embedder.test_embedder import make

pytestmark = pytest.mark.extras
mteb = pytest.importorskip("mteb", reason="the extra 'mteb' is not installed")

NOUNS, VERBS = ("dog", "cat", "poodle", "animal", "child"), ("runs", "sleeps", "eats", "jumps")
SENTENCES = [f"a {noun} {verb} near the water" for noun in NOUNS for verb in VERBS]


def metadata(name: str, kind: str, score: str) -> Any:
    return mteb.TaskMetadata(
        name=name, description="Sentences of a local file.", type=kind, main_score=score,
        dataset={"path": "local/file", "revision": "1"}, reference=None,
        eval_splits=["test"], eval_langs=["eng-Latn"], category="t2t", modalities=["text"],
    )  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    first, second = rng.choice(SENTENCES, 80).tolist(), rng.choice(SENTENCES, 80).tolist()
    shared = [len(set(a.split()) & set(b.split())) for a, b in zip(first, second, strict=True)]
    return [
        {"sentence1": a, "sentence2": b, "score": words - 4.0, "labels": int(words > 4)}
        for a, b, words in zip(first, second, shared, strict=True)
    ]


@pytest.fixture(scope="module")
def tasks(rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """STS and pair classification over one file of JSON lines."""
    file = tmp_path_factory.mktemp("mteb") / "pairs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    from datasets import load_dataset
    from mteb.abstasks import AbsTaskPairClassification, AbsTaskSTS

    class Local:
        """Reads the file in place of the hub."""

        def load_data(self, **_: Any) -> None:
            cache = str(file.parent / "cache")
            self.dataset = load_dataset("json", data_files={"test": str(file)}, cache_dir=cache)
            self.data_loaded = True

    class LocalSts(Local, AbsTaskSTS):
        metadata = metadata("LocalSts", "STS", "spearman")
        min_score, max_score = 0, 3

    class LocalPairs(Local, AbsTaskPairClassification):
        metadata = metadata("LocalPairs", "PairClassification", "similarity_ap")

    return [LocalSts(), LocalPairs()]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return prepare("builtin:tiny", SENTENCES, tmp_path_factory.mktemp("encoders"))


def test_an_encoder_without_training_is_a_model_on_the_tasks(
    tasks: list[Any], rows: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sentune.mteb_model import MtebEncoder

    monkeypatch.setenv("HOME", str(tmp_path))
    words = dict.fromkeys(" ".join(SENTENCES).split())
    vectors = np.random.default_rng(0).normal(size=(len(words), 4))
    lines = [" ".join([word, *map(str, row)]) for word, row in zip(words, vectors, strict=True)]
    (tmp_path / "glove.txt").write_text("\n".join(lines), encoding="utf-8")
    source = f"random:borep?vectors=glove:{tmp_path / 'glove.txt'}&size=8"
    model = MtebEncoder(source, device="cpu")
    assert model.mteb_model_meta.revision == "no_revision_available"
    found = mteb.evaluate(
        model, tasks[:1], cache=None, co2_tracker=False, show_progress_bar=False
    ).task_results[0]
    first, second, scores, _ = ([row[key] for row in rows] for key in rows[0])
    expected = spearmanr(Embedder.load(source, "cpu").similarity(first, second), scores).statistic
    assert found.scores["test"][0]["main_score"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", ["gumbel", "gauss", "simcse"])
def test_mtebs_scores_are_those_of_the_models_own_similarity(
    name: str, encoder: str, tasks: list[Any], rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    from mteb.models import EncoderProtocol

    from sentune.mteb_model import MtebEncoder

    method = make(encoder, name).method
    training = TrainingSettings(max_length=16)
    save_model(method, encoder, tmp_path / "model", training=training, readouts={}, card={})
    shutil.copytree(tmp_path / "model", tmp_path / "other")
    for folder in ("model", "other"):
        seal_model(tmp_path / folder, {"study": folder})
    model, other = (MtebEncoder(tmp_path / folder, device="cpu") for folder in ("model", "other"))
    # mteb takes scores of an equal name and revision from its cache
    assert len({model.mteb_model_meta.revision, other.mteb_model_meta.revision, None}) == 3
    assert isinstance(model, EncoderProtocol)

    results = mteb.evaluate(model, tasks, cache=None, co2_tracker=False, show_progress_bar=False)
    found = {r.task_name: r.scores["test"][0]["main_score"] for r in results.task_results}

    own = Embedder.load(tmp_path / "model", device="cpu")
    first, second, scores, labels = ([row[key] for row in rows] for key in rows[0])
    similarities = own.similarity(first, second)
    assert found["LocalSts"] == pytest.approx(spearmanr(similarities, scores).statistic, abs=1e-6)
    expected = average_precision_score(labels, similarities)
    assert found["LocalPairs"] == pytest.approx(expected, abs=1e-6)
    table = model.similarity(own.encode(first[:3]), own.encode(second[:5])).numpy()
    np.testing.assert_allclose(table, own.similarity_table(first[:3], second[:5]), atol=1e-6)
