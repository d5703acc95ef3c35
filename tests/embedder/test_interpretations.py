"""Interpretations of a sentence by a model, and the references that are stored with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import torch
from torch import Tensor

from sentune.embedder.interpret import interpret
from sentune.embedder.references import REFERENCES_FILE, StoredReferences
from sentune.errors import InvalidValue
from sentune.geometry import Boxes, Geometry, Points
from sentune.geometry.interpretations.coverage import covered

NAMES = [f"t{i}" for i in range(40)]


class Model:
    """Boxes that depend on the sentence alone."""

    def __init__(
        self,
        readouts: Mapping[str, Any] | None = None,
        references: Sequence[str] | None = NAMES,
        geometry: Geometry | None = None,
    ) -> None:
        self.geometry = geometry or Boxes(0.1)
        self.readouts = dict(readouts or {})
        self.references = None
        if references is not None:
            self.references = StoredReferences(references, self.embed(references))

    def embed(self, sentences: Sequence[str]) -> Tensor:
        seeds = [crc32(sentence.encode()) for sentence in sentences]
        return torch.stack(
            [torch.randn(8, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
        )


def test_the_readouts_of_the_model_are_taken() -> None:
    csts = {"csts/alpha_1": 0.05, "csts/alpha_2": 0.9, "csts/intersection": "hard"}
    found = interpret(Model(csts), "a sentence", 4)
    assert (found.alpha_1, found.alpha_2) == (0.05, 0.9)
    model = Model()
    hard = replace(Boxes(0.1), intersection="hard")
    (kept,) = covered(hard, model.embed(["a sentence"]), model.embed(NAMES), 0.05)
    coverage = {
        NAMES[row]: value
        for row, value in zip(kept.rows.tolist(), kept.coverage.tolist(), strict=True)
        if value < 0.9
    }
    assert found.references == 40
    assert found.between == len(coverage) > 4
    assert len({one.reference for one in found.interpretations}) == 4
    for one in found.interpretations:
        assert one.coverage == coverage[one.reference]
        assert 0 <= one.similarity <= 1
    ambiguous = {"ambiguous-rte/alpha_1": 0.1, "ambiguous-rte/alpha_2": 0.8}
    both = interpret(Model(csts | ambiguous), "a sentence", 4)
    assert (both.alpha_1, both.alpha_2) == (0.1, 0.8)
    asked = interpret(Model(csts), "a sentence", 4, alpha_1=0.2, alpha_2=0.7)
    assert (asked.alpha_1, asked.alpha_2) == (0.2, 0.7)


def test_a_model_without_alphas_finds_as_many_as_are_asked_for() -> None:
    found = interpret(Model(), "a sentence", 1)
    assert len(found.interpretations) == 1
    assert found.between == 3
    assert found.alpha_2 == 1.0
    assert len(interpret(Model(), "a sentence", 5).interpretations) == 5


def test_the_sentence_itself_is_left_out() -> None:
    names = ["A dog runs.", "a dog runs", "A dog, runs!", "A cat runs.", "A dog ran."]
    found = interpret(Model(references=names), "a DOG runs!", 5)
    assert {one.reference for one in found.interpretations} == {"A cat runs.", "A dog ran."}
    assert found.references == 2
    given = interpret(Model(references=None), "a DOG runs!", 5, [*names, "A cat runs."])
    assert given == found


def test_what_cannot_be() -> None:
    with pytest.raises(InvalidValue, match="boxes"):
        interpret(Model(geometry=Points()), "a", 5)
    with pytest.raises(InvalidValue, match="references"):
        interpret(Model(references=None), "a", 5)
    with pytest.raises(InvalidValue, match="other than"):
        interpret(Model(), "a", 5, ["A."])
    with pytest.raises(InvalidValue, match="alpha_1"):
        interpret(Model(), "a", 5, alpha_1=0.9, alpha_2=0.5)


def test_references_are_stored_with_the_model(tmp_path: Path) -> None:
    assert StoredReferences.load(tmp_path) is None
    stored = StoredReferences(["Ä dog.", "", "a"], torch.randn(3, 4, dtype=torch.float64))
    stored.save(tmp_path)
    loaded = StoredReferences.load(tmp_path)
    assert loaded is not None
    assert loaded.sentences == ("Ä dog.", "", "a")
    assert torch.equal(loaded.embeddings, stored.embeddings.float())
    none = StoredReferences([], torch.empty(0, 4))
    none.save(tmp_path)
    empty = StoredReferences.load(tmp_path)
    assert empty is not None
    assert empty.embeddings.shape == (0, 4)


def test_a_damaged_file_says_so(tmp_path: Path) -> None:
    (tmp_path / REFERENCES_FILE).write_bytes(b"no parquet")
    with pytest.raises(InvalidValue, match="damaged"):
        StoredReferences.load(tmp_path)
    with pytest.raises(InvalidValue, match="one embedding"):
        StoredReferences(["a"], torch.randn(2, 4))
