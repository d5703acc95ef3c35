"""Parts of an evaluation shared over a cluster come back whole, in order and the same."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
import ray
import torch

from sentune.corpora.ray_map import over_cluster, several_machines
from sentune.corpora.schema import SCHEMAS, Corpus, Kind
from sentune.geometry.boxes import Boxes
from sentune.tasks import References, ambiguous_sweep
from sentune.tasks.choose import make_tasks

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.usefixtures("cluster")
def test_parts_come_back_in_order() -> None:
    offset = 100
    assert list(over_cluster(lambda part: part + offset, list(range(7)))) == list(range(100, 107))
    assert list(over_cluster(lambda part: part, [])) == []
    assert not several_machines()


@pytest.mark.usefixtures("cluster")
def test_ambiguous_pairs_judged_on_a_cluster_have_the_same_result(monkeypatch) -> None:
    monkeypatch.setattr(ambiguous_sweep, "LARGEST_BLOCK", 5)
    labels = [["entailment"], ["neutral"], ["entailment", "neutral"]] * 6
    rows = {
        "premise": [f"p{i}" for i in range(18)],
        "hypothesis": [f"h{i}" for i in range(18)],
        "labels": labels,
    }
    kind = Kind.SEVERAL_LABELS
    corpus = Corpus(
        spec="ambient:made", kind=kind, table=pa.table(rows, schema=SCHEMAS[kind]), fingerprint=""
    )
    references = References(tuple(f"r{i}" for i in range(12)), {4: 6, 8: 12})
    torch.manual_seed(0)
    packed = torch.cat([0.4 * torch.randn(48, 3), torch.rand(48, 3)], dim=1)
    found = []
    for spread in (None, over_cluster):
        options = {} if spread is None else {"spread": spread}
        (task,) = make_tasks([("ambiguous-rte", corpus)], references=references, **options)
        found.append(task.evaluate(packed, Boxes(0.1)))
    assert found[0].metrics == found[1].metrics
    assert found[0].readouts == found[1].readouts
    assert found[0].tables == found[1].tables
