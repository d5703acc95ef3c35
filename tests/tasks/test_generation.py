"""Generation on items made by hand, with a decoder that is a table of answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
import torch
from rouge_score.rouge_scorer import RougeScorer

from sentune.corpora.schema import SCHEMAS, Corpus, Kind
from sentune.errors import CorpusError, InvalidValue, TrialFailed
from sentune.geometry import Points
from sentune.tasks.base import Generate, Model, ModelTask, evaluate
from sentune.tasks.generation import EXAMPLES, Generation
from tests.rounding import rounding

Item = tuple[str, str, str | None, str]

FUSED = [
    ("fusion", "it rains", "we stay", "it rains so we stay"),
    ("fusion", "he ran", "he fell", "he ran and fell"),
    ("difference", "it rains so we stay", "it rains", "we stay"),
]
SHORTENED = [("compression", "the old man sat down", None, "man sat"),
             ("compression", "a b c d", None, "a b")]  # fmt: skip
SAME = [("reconstruction", "one two", None, "one two")]


def corpus(rows: Sequence[Item], spec: str = "google:made", kind: Kind = Kind.OPERATIONS) -> Corpus:
    columns = list(zip(*rows, strict=True))
    table = pa.table(dict(zip(SCHEMAS[kind].names, columns, strict=True)), schema=SCHEMAS[kind])
    return Corpus(spec=spec, kind=kind, table=table, fingerprint="made")


def first_words(operation: str, firsts: Sequence[str], seconds: Sequence[str] | None) -> list[str]:
    """The first word of every sentence, and the operation's name."""
    pairs = zip(firsts, seconds or [""] * len(firsts), strict=True)
    return [" ".join([a.split()[0], *b.split()[:1], operation]) for a, b in pairs]


def model(generate: Generate | None) -> Model:
    return Model(
        embed=lambda texts: torch.ones(len(texts), 2), geometry=Points(), generate=generate
    )


def google(rows: Sequence[Item], texts: Sequence[str], name: str) -> float:
    scorer = RougeScorer([name])
    pairs = zip(rows, texts, strict=True)
    return float(np.mean([scorer.score(row[3], text)[name].fmeasure for row, text in pairs]))


def test_each_operation_is_the_mean_over_its_items() -> None:
    task = Generation([corpus(FUSED), corpus(SHORTENED + SAME)])
    found = evaluate([task], model(None).embed, Points(), generate=first_words)
    parts = {"fusion": FUSED[:2], "difference": FUSED[2:], "compression": SHORTENED,
             "reconstruction": SAME}  # fmt: skip
    for operation, rows in parts.items():
        seconds = None if rows[0][2] is None else [str(row[2]) for row in rows]
        texts = first_words(operation, [row[1] for row in rows], seconds)
        for name in ("rouge1", "rouge2", "rougeL"):
            value = found.metrics[f"{operation}/{name}"]
            assert value == pytest.approx(google(rows, texts, name), abs=rounding(len(rows)))
        assert found.tables[f"{operation}/counts.json"] == {"pairs": len(rows)}
    names = [*parts, "generation"]
    assert found.metrics.keys() == {
        f"{n}/{r}" for n in names for r in ("rouge1", "rouge2", "rougeL")
    }
    assert not found.skipped


def test_the_mean_is_over_test_sets_without_reconstruction() -> None:
    sets = [corpus(FUSED), corpus(SHORTENED + SAME), corpus(SHORTENED[:1], "gigaword:x?split=dev"),
            corpus(SHORTENED[1:], "gigaword:y")]  # fmt: skip
    task = Generation(sets)
    metrics = task.run(model(first_words)).metrics
    names = ["fusion", "difference", "compression", "compression-gigaword",
             "compression-gigaword-2"]  # fmt: skip
    assert {name.rpartition("/")[0] for name in metrics} == {*names, "reconstruction", "generation"}
    for rouge in ("rouge1", "rouge2", "rougeL"):
        expected = np.mean([metrics[f"{name}/{rouge}"] for name in names])
        assert metrics[f"generation/{rouge}"] == pytest.approx(expected)
    whole, halves = metrics["compression/rouge1"], [metrics[f"{n}/rouge1"] for n in names[3:]]
    assert whole == pytest.approx(np.mean(halves))


def test_the_model_is_asked_once_and_told_the_operation() -> None:
    asked = []

    def generate(operation: str, firsts: Sequence[str], seconds: Sequence[str] | None) -> list[str]:
        asked.append((operation, list(firsts), seconds if seconds is None else list(seconds)))
        return ["x"] * len(firsts)

    Generation([corpus([*SHORTENED[:1], FUSED[0], FUSED[2]])]).run(model(generate))
    assert asked == [
        ("fusion", ["it rains"], ["we stay"]),
        ("difference", ["it rains so we stay"], ["it rains"]),
        ("compression", ["the old man sat down"], None),
    ]


def test_examples_show_the_first_items() -> None:
    task = Generation([corpus([*FUSED, *SHORTENED * 5])])
    rows = task.run(model(first_words)).tables["generation/examples.json"]
    assert [row["operation"] for row in rows] == [
        "fusion", "fusion", "difference", *["compression"] * EXAMPLES,
    ]  # fmt: skip
    assert rows[0] == {
        "operation": "fusion", "first": "it rains", "second": "we stay",
        "target": "it rains so we stay", "generated": "it we fusion", "rouge1": pytest.approx(0.5),
    }  # fmt: skip
    assert rows[-1]["second"] is None


def test_a_model_without_decoder_skips_everything() -> None:
    task = Generation([corpus(FUSED)])
    assert isinstance(task, ModelTask)
    found = task.run(model(None))
    assert not found.metrics
    assert not found.tables
    reason = "the model has no decoder"
    assert found.skipped == dict.fromkeys(("generation", "fusion", "difference"), reason)


def test_a_mean_of_nothing_is_skipped() -> None:
    task = Generation([corpus(SAME)])
    found = task.run(model(first_words))
    assert list(found.metrics) == [f"reconstruction/{x}" for x in
                                                       ("rouge1", "rouge2", "rougeL")]  # fmt: skip
    assert "fusion" in found.skipped["generation"]


def test_copying_the_input_is_a_baseline() -> None:
    task = Generation([corpus(FUSED + SHORTENED + SAME)])
    found = task.baselines()
    copies = {
        "fusion": (FUSED[:2], ["it rains we stay", "he ran he fell"]),
        "difference": (FUSED[2:], ["it rains so we stay"]),
        "compression": (SHORTENED, ["the old man sat down", "a b c d"]),
    }
    for operation, (rows, texts) in copies.items():
        for name in ("rouge1", "rouge2", "rougeL"):
            expected = google(rows, texts, name)
            assert found.pop(f"{operation}/copy_{name}") == pytest.approx(expected)
    assert sorted(found) == ["generation/copy_rouge1", "generation/copy_rouge2",
                             "generation/copy_rougeL"]  # fmt: skip


def test_reconstruction_of_something_else_has_a_baseline() -> None:
    rows = [*SAME, ("reconstruction", "one two", None, "a paraphrase of two")]
    assert Generation([corpus(rows)]).baselines()["reconstruction/copy_rouge1"] < 1


def test_a_lost_sentence_is_an_error() -> None:
    with pytest.raises(TrialFailed, match="1 sentences for 2 of fusion"):
        Generation([corpus(FUSED)]).run(model(lambda o, a, b: ["one"]))


def test_only_operations_are_taken() -> None:
    texts = corpus([("one",)], kind=Kind.SENTENCES)  # type: ignore[list-item]
    with pytest.raises(CorpusError, match="needs operations, not sentences"):
        Generation([texts])
    with pytest.raises(InvalidValue, match="corpora"):
        Generation([])
