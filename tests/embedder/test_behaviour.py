"""What a model makes of pairs of dev: the same decisions as the tasks', small, and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor

from sentune.corpora.schema import SCHEMAS, Corpus, Kind
from sentune.embedder.behaviour import behaviour
from sentune.embedder.embedder import Embedder
from sentune.embedder.references import StoredReferences
from sentune.geometry import Boxes, Gaussians, Geometry, Points
from sentune.report.behaviour_charts import hits
from sentune.tasks import DirectionTask, Rte

WIDTH = 8
READOUTS = {"rte/threshold": 0.3, "direction/by": "similarity"}


class Fixed(Embedder):
    """Embeddings that depend on the sentence alone."""

    def __init__(self, geometry: Geometry, readouts: Mapping[str, Any], references: int = 0):
        self.method: Any = SimpleNamespace(geometry=geometry)
        self.readouts, self.device = dict(readouts), torch.device("cpu")
        self.references = None
        if references:
            names = [f"t{number}" for number in range(references)]
            self.references = StoredReferences(names, self.embed(names))

    def embed(self, sentences: Sequence[str], **_: Any) -> Tensor:
        seeds = [crc32(sentence.encode()) for sentence in sentences]
        rows = [torch.randn(WIDTH, generator=torch.Generator().manual_seed(s)) for s in seeds]
        return torch.stack(rows)


def corpus(kind: Kind, rows: Sequence[Sequence[Any]]) -> Corpus:
    schema = SCHEMAS[kind]
    columns = [list(column) for column in zip(*rows, strict=True)]
    table = pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema)
    return Corpus(spec="made:up", kind=kind, table=table, fingerprint="f")


def labelled(count: int) -> Corpus:
    labels = ("entailment", "neutral", "contradiction")
    rows = [(f"p{n}" + "x" * (n % 5), f"h{n}", labels[n % 3], None) for n in range(count)]
    return corpus(Kind.LABELLED_PAIRS, rows)


@pytest.mark.parametrize("geometry", [Boxes(0.1), Gaussians()])
def test_decisions_are_those_of_the_tasks(geometry: Geometry) -> None:
    dev, model = labelled(90), Fixed(geometry, READOUTS)
    rte, direction = behaviour(model, [dev])["tasks"]
    for entry, task in ((rte, Rte(dev)), (direction, DirectionTask(dev))):
        known = model.evaluate([task], READOUTS).metrics[f"{task.name}/accuracy"]
        gold = entry.get("positive", [1] * len(entry["scores"]))
        above = np.array(entry["scores"]) > entry["threshold"]
        assert np.mean(above == np.array(gold, dtype=bool)) == pytest.approx(known)
        assert entry["pairs"] == len(task.pairs) == len(entry["surplus"])
    for pair in rte["right"]:
        assert (pair["score"] > 0.3) == (pair["label"] == "entailment")
    for pair in rte["wrong"]:
        assert (pair["score"] > 0.3) == (pair["label"] == "other")
    away = [abs(pair["score"] - 0.3) for pair in rte["right"]]
    assert away == sorted(away, reverse=True)
    assert (len(rte["right"]), len(rte["wrong"])) == (20, 20)


def test_a_threshold_that_is_a_score_decides_in_the_report_as_in_the_task() -> None:
    dev = labelled(90)
    task, model = Rte(dev), Fixed(Boxes(0.1), {})
    scores = task.pairs.compare(model.embed_known(task.pairs.sentences), model.geometry.entails)
    for threshold in sorted(scores.tolist())[::10]:
        model.readouts = {"rte/threshold": threshold}
        known = model.evaluate([task], model.readouts).metrics["rte/accuracy"]
        assert np.mean(hits(behaviour(model, [dev])["tasks"][0])) == pytest.approx(known)


def test_a_large_corpus_leaves_little() -> None:
    found = behaviour(Fixed(Boxes(0.1), READOUTS, references=50), [labelled(5_000)])
    rte = found["tasks"][0]
    assert (rte["pairs"], len(rte["scores"])) == (5_000, 1_000)
    assert len(found["map"]["pairs"]) == 60
    assert len(json.dumps(found, allow_nan=False)) < 100_000
    assert [len(one["interpretations"]) <= 3 for one in found["interpretations"]] == [True] * 5
    again = behaviour(Fixed(Boxes(0.1), READOUTS, references=50), [labelled(5_000)])
    assert again == found


def test_regions_are_those_of_the_geometry() -> None:
    box, gauss = (
        behaviour(Fixed(geometry, READOUTS), [labelled(60)])["shapes"][0]
        for geometry in (Boxes(0.1), Gaussians())
    )
    packed = Fixed(Boxes(0.1), {}).embed([box["first"]])
    corners = Boxes(0.1).corners(packed)
    chosen = torch.tensor(box["dimensions"]) - 1
    sides = torch.tensor(box["centre"][0]) - torch.tensor(box["reach"][0])
    torch.testing.assert_close(sides, corners.lower[0, chosen], atol=1e-3, rtol=1e-3)
    mean, log_sigma = Fixed(Gaussians(), {}).embed([gauss["second"]])[0].chunk(2)
    chosen = torch.tensor(gauss["dimensions"]) - 1
    torch.testing.assert_close(torch.tensor(gauss["centre"][1]), mean[chosen], atol=1e-3, rtol=0)
    expected = log_sigma.exp()[chosen]
    torch.testing.assert_close(torch.tensor(gauss["reach"][1]), expected, atol=1e-3, rtol=1e-3)


def test_points_have_a_map_and_scored_pairs_their_ranks() -> None:
    rows = [(f"a{n}", f"b{n}", n / 10, None) for n in range(50)]
    found = behaviour(Fixed(Points(), {}), [corpus(Kind.SCORED_PAIRS, rows)])
    (sts,) = found["tasks"]
    assert sts["gold"] == [n / 10 for n in range(50)]
    assert found["shapes"] == []
    assert "interpretations" not in found
    assert 0 < sum(found["map"]["explained"]) <= 1
    wrong = {pair["label"] for pair in sts["wrong"]}
    assert not wrong & {pair["label"] for pair in sts["right"]}


def test_what_a_model_cannot_do_is_left_out() -> None:
    without = behaviour(Fixed(Points(), {"rte/threshold": 0.1}), [labelled(30)])
    assert [entry["task"] for entry in without["tasks"]] == ["rte"]
    assert behaviour(Fixed(Points(), {}), [labelled(30)])["tasks"] == []
