"""Metadata of a model card, as the Hub's own library reads it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from sentune.training.model_card import HUB, VERDICT, model_card

TOLD = {
    "encoder": "google-bert/bert-base-uncased",
    "corpora": {
        "corpus": "hf:stanfordnlp/snli?split=train", "corpus.1": "nli:/home/ann/own.jsonl",
        "dev": "snli:/home/ann/dev.jsonl", "test": "snli:/home/ann/test.jsonl",
    },
    "split": "test",
    "metrics": {"direction/accuracy": 0.981, "rte/auc": 0.9},
}  # fmt: skip


def card_of(folder: Path, **hub: object) -> ModelCard:
    text = model_card("gumbel", "GumbelCSE", folder, str(folder), {HUB: {**TOLD, **hub}})
    return ModelCard(text)


def test_the_hub_reads_base_model_data_sets_licence_and_metrics(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n# an encoder\n")
    (tmp_path / "modules.json").write_text('[{"type": "sentune.sentence_transformers.X"}]')
    card = card_of(tmp_path)
    data = card.data
    assert data.license == "mit"
    assert data.base_model == "google-bert/bert-base-uncased"
    assert data.datasets == ["stanfordnlp/snli"]
    assert (data.library_name, data.pipeline_tag) == (
        "sentence-transformers", "sentence-similarity",
    )  # fmt: skip
    first, second = data.eval_results
    assert (first.metric_name, first.metric_value) == ("direction/accuracy", 0.981)
    assert (first.dataset_type, first.dataset_name) == ("snli", "snli:test.jsonl")
    assert first.dataset_split == "test"
    assert second.metric_type == "auc"
    assert "trust_remote_code=True" in card.text
    assert "/home/ann" not in str(card)


@pytest.mark.parametrize(
    "text",
    ["---\nlicense: foo: bar\n---\n", "---\n- mit\n---\n", "---\nmodel-index: 3\n---\n", b"\xff"],
)
def test_a_damaged_card_of_an_encoder_names_no_licence(text: str | bytes, tmp_path: Path) -> None:
    content = text.encode() if isinstance(text, str) else text
    (tmp_path / "README.md").write_bytes(content)
    assert card_of(tmp_path).data.license is None


def test_the_licence_of_a_pair_is_that_of_its_encoder(tmp_path: Path) -> None:
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "README.md").write_text("---\nlicense: mit\n---\n")
    assert card_of(tmp_path).data.license == "mit"


def test_the_line_for_mlflow_gives_rows_with_the_columns_of_the_signature(tmp_path: Path) -> None:
    (given,) = re.findall(r"\.predict\((.*)\)", card_of(tmp_path).text)
    rows = ast.literal_eval(given)
    assert [row.keys() for row in rows] == [{"sentence"}]


@pytest.mark.parametrize("task", ["trec", "my_tasks:Match"])
def test_the_task_before_a_corpus_is_no_part_of_its_format(tmp_path: Path, task: str) -> None:
    card = card_of(tmp_path, corpora={"test": f"{task}=senteval:/home/ann/data"})
    first = card.data.eval_results[0]
    assert (first.dataset_type, first.dataset_name) == ("senteval", "senteval:data")
    assert "/home/ann" not in str(card)


def test_a_model_of_local_files_names_neither_base_model_nor_licence(tmp_path: Path) -> None:
    corpora = {"corpus": "builtin:nli", "dev": "builtin:nli?split=dev"}
    card = card_of(tmp_path, encoder=str(tmp_path), corpora=corpora, split="dev")
    found = card.data.to_dict()
    assert not {"base_model", "license", "datasets"} & found.keys()
    assert card.data.library_name == "sentune"
    assert card.data.eval_results[0].dataset_name == "builtin:nli?split=dev"
    assert "sentence_transformers" not in card.text


@pytest.mark.parametrize("hub", [{}, {"metrics": {}}])
def test_a_card_without_metrics_has_no_model_index(tmp_path: Path, hub: dict[str, object]) -> None:
    text = model_card("sif", "SIF", tmp_path, None, {HUB: hub, "Lineage": {"a|b": "c\nd"}})
    assert ModelCard(text).data.eval_results is None
    assert r"| a\|b | c d |" in text


def test_the_verdict_stands_under_the_title(tmp_path: Path) -> None:
    said = {VERDICT: {"direction/accuracy": "It does not beat sentence length (98.2 %)."}}
    lines = model_card("gumbel", "GumbelCSE", tmp_path, None, said).splitlines()
    title = lines.index("# GumbelCSE sentence embeddings")
    assert lines[title + 2] == "**It does not beat sentence length (98.2 %).**"
    assert "## Verdict" not in lines
