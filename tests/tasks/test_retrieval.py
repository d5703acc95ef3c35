"""Retrieval on folders in BEIR's layout, against sentence-transformers' evaluator."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
from sentence_transformers.util import semantic_search
from sklearn.feature_extraction.text import HashingVectorizer
from torch import Tensor

from sentune.corpora import Kind, read
from sentune.corpora.schema import SCHEMAS, Corpus
from sentune.errors import CorpusError, InvalidValue, TrialFailed
from sentune.geometry import Points
from sentune.tasks import retrieval
from sentune.tasks.base import Embed, Model, ModelTask, Result
from sentune.tasks.retrieval import Retrieval

DATA = Path(os.environ.get("SENTUNE_DATA", "no-data"))
Judged = Mapping[str, Iterable[str]]


def write(
    path: Path, passages: Iterable[tuple[str, str]], queries: Mapping[str, str], judged: Judged
) -> str:
    """A folder in BEIR's layout -> its specification."""
    (path / "qrels").mkdir()
    for name, rows in (("corpus", passages), ("queries", queries.items())):
        lines = [json.dumps({"_id": key, "title": "", "text": text}) for key, text in rows]
        (path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    rows = [f"{query}\t{passage}\t1" for query, names in judged.items() for passage in names]
    (path / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]))
    return f"beir:{path}"


def bag_of_words(texts: list[str]) -> Tensor:
    counts = HashingVectorizer(n_features=2**10, norm=None, alternate_sign=False).transform(texts)
    return torch.tensor(counts.toarray(), dtype=torch.float32)


def angle(texts: list[str]) -> Tensor:
    """A text is an angle in degrees."""
    radians = torch.tensor([float(text) for text in texts]).deg2rad()
    return torch.stack([radians.cos(), radians.sin()], dim=1)


def run(spec: str, embed: Embed = angle) -> Result:
    task = Retrieval(read(spec, Kind.QUERIES))
    assert isinstance(task, ModelTask)
    result = task.run(Model(embed=embed, geometry=Points()))
    names = ["retrieval/mrr@10", "retrieval/recall@10", "retrieval/recall@100"]
    assert list(result.metrics) == names
    return result


def values(result: Result) -> tuple[float, ...]:
    return tuple(result.metrics.values())


def test_metrics_by_hand(tmp_path: Path) -> None:
    passages = [(f"p{degrees}", str(degrees)) for degrees in range(150)]
    judged = {"first": ["p0"], "fourth": ["p12"], "tenth": ["p25", "p10"], "far": ["p149", "p1"]}
    queries = {"first": "0", "fourth": "10.4", "tenth": "20.1", "far": "0"}
    result = run(write(tmp_path, passages, queries, judged))
    # nearest to 10.4: 10, 11, 9, 12; to 20.1: 20, 21, 19, ..., 25 the tenth; to 0: 0, 1
    expected = (
        (1 + 1 / 4 + 1 / 10 + 1 / 2) / 4,
        (1 + 1 + 1 / 2 + 1 / 2) / 4,
        (1 + 1 + 1 + 1 / 2) / 4,
    )
    assert values(result) == pytest.approx(expected)
    assert result.tables == {
        "retrieval/counts.json": {
            "queries": 4, "passages": 150, "bad_passages": 0, "relevant": 6,
            "relevant_missing": 0, "left_out_identical": 0,
        }
    }  # fmt: skip


def random_folder(path: Path) -> tuple[str, dict[str, str], dict[str, str], dict[str, set[str]]]:
    draw = np.random.default_rng(0)
    passages = {f"p{i}": f"{d:.3f}" for i, d in enumerate(draw.uniform(0, 360, 700))}
    queries = {f"q{i}": f"{d:.3f}" for i, d in enumerate(draw.uniform(0, 360, 40))}
    judged = {
        name: {f"p{i}" for i in np.argsort(near_first(text, passages))[draw.integers(0, 130, 4)]}
        for name, text in queries.items()
    }
    return write(path, passages.items(), queries, judged), passages, queries, judged


def near_first(text: str, passages: Mapping[str, str]) -> list[float]:
    return [abs((float(other) - float(text) + 180) % 360 - 180) for other in passages.values()]


def test_metrics_are_those_of_sentence_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, passages, queries, judged = random_folder(tmp_path)
    hits = semantic_search(angle(list(queries.values())), angle(list(passages.values())), top_k=100)
    names = list(passages)
    named = [[{**hit, "corpus_id": names[hit["corpus_id"]]} for hit in row] for row in hits]
    judge = InformationRetrievalEvaluator(
        queries, passages, judged, precision_recall_at_k=[10, 100], write_csv=False
    )
    theirs = judge.compute_metrics(named)
    expected = theirs["mrr@k"][10], theirs["recall@k"][10], theirs["recall@k"][100]
    found = values(run(spec))
    assert found == pytest.approx(expected)
    assert 0 < found[1] < found[2] < 1
    for block in (1, 99):
        monkeypatch.setattr(retrieval, "BLOCK", block)
        assert values(run(spec)) == found


def test_a_query_does_not_find_itself(tmp_path: Path) -> None:
    passages = [("a", "0"), ("b", "3"), ("c", "20"), ("d", "5")]
    spec = write(tmp_path, passages, {"a": "0", "b": "3"}, {"a": ["d"], "b": ["d"]})
    result = run(spec)
    assert result.metrics["retrieval/mrr@10"] == pytest.approx((1 / 2 + 1) / 2)
    assert result.tables["retrieval/counts.json"]["left_out_identical"] == 2


def test_equal_passages_rank_in_the_order_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passages = [(f"p{i}", "7") for i in range(30)]
    judged = {"x": ["p9"], "y": ["p10"], "z": ["p3", "p4"]}
    spec = write(tmp_path, passages, {"x": "0", "y": "90", "z": "7"}, judged)
    expected = (1 / 10 + 0 + 1 / 4) / 3, (1 + 0 + 1) / 3, 1.0
    for block in (1, 4, 100):
        monkeypatch.setattr(retrieval, "BLOCK", block)
        assert values(run(spec)) == pytest.approx(expected)


def test_a_missing_relevant_passage_is_not_found_and_counted(tmp_path: Path) -> None:
    spec = write(tmp_path, [("p", "0")], {"x": "0", "y": "1"}, {"x": ["p", "gone"], "y": ["gone"]})
    result = run(spec)
    assert values(result) == (0.5, 0.25, 0.25)
    counts = result.tables["retrieval/counts.json"]
    assert (counts["relevant"], counts["relevant_missing"]) == (3, 2)


def test_the_wrong_passages_are_an_error(tmp_path: Path) -> None:
    spec = write(tmp_path, [("p", "0")], {"x": "0"}, {"x": ["gone"]})
    with pytest.raises(CorpusError, match=r"corpus\.jsonl: it has none of the 1 relevant"):
        run(spec)


def test_a_relevant_passage_is_there_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "BLOCK", 1)
    spec = write(tmp_path, [("p", "0"), ("o", "1"), ("p", "2")], {"x": "0"}, {"x": ["p"]})
    with pytest.raises(CorpusError, match="the passage p occurs twice"):
        run(spec)


def test_bad_passages_are_told(tmp_path: Path) -> None:
    spec = write(tmp_path, [("p", "0"), ("o", " "), ("r", "1")], {"x": "0"}, {"x": ["r"]})
    result = run(spec)
    assert values(result)[0] == 1 / 2
    assert result.tables["retrieval/counts.json"]["bad_passages"] == 1
    assert result.tables["retrieval/bad_passages.json"] == [
        {"line": 2, "reason": "title and text are empty"}
    ]


def test_an_embedding_that_is_not_finite_is_an_error(tmp_path: Path) -> None:
    spec = write(tmp_path, [("p", "0"), ("o", "nan")], {"x": "0"}, {"x": ["p"]})
    with pytest.raises(TrialFailed, match="the first that of 'nan'"):
        run(spec)


def test_passages_are_encoded_block_by_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retrieval, "BLOCK", 10)
    asked: list[int] = []

    def embed(texts: list[str]) -> Tensor:
        asked.append(len(texts))
        return angle(texts)

    passages = [(f"p{i}", str(i)) for i in range(25)]
    run(write(tmp_path, passages, {"x": "0"}, {"x": ["p1"]}), embed)
    assert asked == [1, 10, 10, 5]


def test_queries_come_from_a_folder() -> None:
    table = SCHEMAS[Kind.QUERIES].empty_table()
    made = Corpus(spec="parquet:x", kind=Kind.QUERIES, table=table, fingerprint="made")
    with pytest.raises(InvalidValue, match="parquet:x"):
        Retrieval(made)
    texts = Corpus(spec="text:x", kind=Kind.SENTENCES, table=table, fingerprint="made")
    with pytest.raises(CorpusError, match="needs queries, not sentences"):
        Retrieval(texts)


@pytest.mark.skipif(not DATA.is_dir(), reason="SENTUNE_DATA names no folder of corpora")
def test_words_find_sentences_that_mean_the_same(tmp_path: Path) -> None:
    """SICK's pairs scored 4.5 and more: the second sentence is to be found by the first."""
    pairs = read(f"sick:{DATA}/sick/SICK.txt", Kind.SCORED_PAIRS).table.to_pylist()
    texts = dict.fromkeys(pair[side] for pair in pairs for side in ("sentence1", "sentence2"))
    name = {text: f"s{i}" for i, text in enumerate(texts)}
    judged: dict[str, list[str]] = {}
    for pair in pairs:
        if pair["score"] >= 4.5 and pair["sentence1"] != pair["sentence2"]:
            judged.setdefault(name[pair["sentence1"]], []).append(name[pair["sentence2"]])
    passages = [(key, text) for text, key in name.items()]
    queries = {name[text]: text for text in texts if name[text] in judged}
    judged = {query: list(dict.fromkeys(names)) for query, names in judged.items()}
    result = run(write(tmp_path, passages, queries, judged), bag_of_words)
    counts = result.tables["retrieval/counts.json"]
    assert counts["left_out_identical"] == counts["queries"] == len(queries) > 500
    chance = 10 / counts["passages"]
    assert result.metrics["retrieval/mrr@10"] > 0.4 > 100 * chance
    assert result.metrics["retrieval/recall@100"] > 0.9
