"""The loop: learning, milestones, schedules, precision, several workers, failures."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sentune import beats
from sentune.corpora import Corpus, Kind, read
from sentune.corpora.batches import Held, SharedSource
from sentune.corpora.encode import Encoder
from sentune.encoders import prepare
from sentune.errors import InvalidValue, TrialFailed
from sentune.training import loop
from sentune.training.group import Group
from sentune.training.loop import train
from sentune.training.recipes.sentences import SentenceBackward
from sentune.training.trial import Progress, TrialSpec
from tests.forked import join_group, run_group
from tests.token_tables import tokenise

MakeTrial = Callable[..., TrialSpec]
METHODS = ["simcse", "gauss", "gumbel"]


def run(spec: TrialSpec, group: Group | None = None) -> list[Progress]:
    return list(train(replace(spec, directory=""), group or Group.single("cpu")))


@pytest.mark.parametrize("method", METHODS)
def test_learns(make_trial: MakeTrial, method: str) -> None:
    spec = make_trial(method=method, max_examples=3072, milestones=(192, 3072))
    first, last = run(spec)
    # 0.89 to 0.93 of it for five seeds of SimCSE
    assert last.metrics["train/loss"] < 0.95 * first.metrics["train/loss"]
    assert (first.final, last.final) == (False, True)


def test_a_run_keeps_fifty_points_of_its_loss_and_speed(make_trial: MakeTrial) -> None:
    spec = make_trial(settings={"batch_size": 8}, max_examples=2400, milestones=(400, 1200, 2400))
    rungs = run(spec)
    first = rungs[0]
    assert len(first.trace) == 50, "one that ends at its first rung has them too"
    assert [len(progress.trace) for progress in rungs[1:]] == [33, 25]
    points = [point for progress in rungs for point in progress.trace]
    seen, losses, speeds, times = zip(*points, strict=True)
    assert list(seen[:50]) == list(range(8, 408, 8))
    assert seen[-1] <= 2400
    assert list(seen) == sorted(set(seen))
    assert list(times) == sorted(times)
    assert min(speeds) > 0
    assert sum(losses[:50]) / 50 == pytest.approx(first.metrics["train/loss"])
    assert beats.newest().rate > 0


def test_learns_direction_on_sentences_that_it_has_not_seen(tmp_path: Path) -> None:
    corpus, pairs = read("builtin:nli?size=4000", Kind.TRIPLETS), Kind.LABELLED_PAIRS
    texts = [text for column in corpus.table.itercolumns() for text in column.to_pylist()]
    encoder = prepare("builtin:tiny", texts, tmp_path)
    spec = TrialSpec(
        trial="0",
        method="gumbel",
        settings={"learning_rate": 1e-3, "warmup": 0.1, "pooling": "mean"},
        encoder=encoder,
        corpus=Held(SharedSource(tokenise(corpus, Encoder(encoder, 32), None))),
        dev=Held([read("builtin:nli?split=dev&size=600", pairs)]),
        max_examples=8000,
        milestones=(8000,),
        objective="direction/accuracy",
    )
    (progress,) = run(spec)
    assert progress.metrics["direction/accuracy"] > 0.75
    assert progress.metrics["direction/accuracy"] > progress.metrics["direction/length"] + 0.15


def test_the_same_spec_gives_the_same_run_and_another_seed_another(make_trial: MakeTrial) -> None:
    losses = [[p.metrics["train/loss"] for p in run(make_trial(seed=seed))] for seed in (3, 3, 4)]
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


@pytest.mark.parametrize("batch_size", [16, 30, 96])
def test_trials_of_all_batch_sizes_meet_at_the_milestones(
    make_trial: MakeTrial, batch_size: int
) -> None:
    spec = make_trial(settings={"batch_size": batch_size}, milestones=(50, 60, 192))
    assert [p.examples for p in run(spec)] == [50, 60, 192]
    assert [p.final for p in run(spec)] == [False, False, True]


def test_it_has_seen_at_least_the_milestone_when_it_reports(make_trial: MakeTrial) -> None:
    spec = make_trial(settings={"batch_size": 30}, milestones=(50, 192))
    trial = loop._Trial(spec, Group.single("cpu"))
    assert list(trial.train_until(50)) == []
    assert trial.position.step == 2


@pytest.mark.parametrize("method", METHODS)
def test_cached_gradients_and_length_sorting_change_nothing(
    make_trial: MakeTrial, method: str
) -> None:
    exact = {"precision": "float64"}
    plain = make_trial(method=method, settings=exact, max_examples=64, milestones=(64,))
    plain = replace(plain, encoder=_without_dropout(plain.encoder))
    cached = replace(plain, settings={**plain.settings, "micro_batch": 3})
    assert _weights(plain) == pytest.approx(_weights(cached), abs=1e-9)


def _without_dropout(encoder: str) -> str:
    target = Path(f"{encoder}-no-dropout")
    if not target.exists():
        target.mkdir()
        for file in Path(encoder).iterdir():
            text = file.read_text().replace('dropout_prob": 0.1', 'dropout_prob": 0.0')
            (target / file.name).write_text(text)
    return str(target)


def _weights(spec: TrialSpec, group: Group | None = None) -> np.ndarray:
    trial = loop._Trial(replace(spec, directory=""), group or Group.single("cpu"))
    list(trial.train_until(spec.max_examples))
    return torch.cat([p.detach().flatten() for p in trial.method.parameters()]).numpy()


def test_bfloat16_trains_with_float32_weights(make_trial: MakeTrial) -> None:
    spec = make_trial(settings={"precision": "bfloat16"}, max_examples=64, milestones=(64,))
    trial = loop._Trial(spec, Group.single("cpu"))
    list(trial.train_until(64))
    assert all(p.dtype is torch.float32 for p in trial.method.parameters())
    exact = make_trial(max_examples=64, milestones=(64,))
    here, there = (run(s)[-1].metrics["train/loss"] for s in (spec, exact))
    assert here != there
    assert here == pytest.approx(there, rel=0.05)


def test_the_best_is_found_whatever_the_mode(make_trial: MakeTrial) -> None:
    assert "direction/accuracy" in run(make_trial(mode="min"))[0].metrics


def test_unsupervised_simcse_trains_on_sentences(
    make_trial: MakeTrial, texts: list[str], tmp_path: Path
) -> None:
    (tmp_path / "lines.txt").write_text("\n".join(texts[:128]) + "\n")
    spec = make_trial(method="simcse-unsupervised", objective="rte/auc")
    corpus = read(f"text:{tmp_path / 'lines.txt'}", Kind.SENTENCES)
    source = SharedSource(tokenise(corpus, Encoder(spec.encoder, 32), None))
    first, *_, last = run(
        replace(spec, corpus=Held(source), max_examples=1280, milestones=(64, 1280))
    )
    assert last.metrics["train/loss"] < first.metrics["train/loss"]


class TestFailures:
    def test_corpus_of_another_kind(self, make_trial: MakeTrial, dev: Corpus) -> None:
        spec = make_trial()
        source = SharedSource(tokenise(dev, Encoder(spec.encoder, 32), None))
        with pytest.raises(InvalidValue, match=r"--corpus.*GumbelCSE trains on triplets"):
            run(replace(spec, corpus=Held(source)))

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"settings": {"batch_size": 500}}, "batch_size: 500"),
            ({"settings": {"max_length": 4096}}, "the encoder takes at most 128"),
            ({"milestones": (64, 128)}, "end with max_examples"),
            ({"milestones": (128, 64, 192)}, "they must increase"),
            ({"method": "word2vec"}, "--method: 'word2vec'"),
        ],
    )
    def test_names_what_cannot_be_used(
        self, make_trial: MakeTrial, changes: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(InvalidValue, match=message):
            run(make_trial(**changes))

    def test_a_loss_that_is_not_finite_names_the_examples(
        self, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        steps = iter([1.0, 1.0, math.nan])
        original = SentenceBackward._loss

        def broken(self: Any, embeddings: torch.Tensor, **rest: Any) -> torch.Tensor:
            return original(self, embeddings, **rest) * next(steps)

        monkeypatch.setattr(SentenceBackward, "_loss", broken)
        with pytest.raises(TrialFailed, match="after 32 examples: loss nan"):
            run(make_trial())

    def test_boxes_that_do_not_overlap_are_given_up(
        self, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """At T = 2 a side of 2.6 is lost in the noise: in 64 dimensions every P underflows."""
        monkeypatch.setattr(loop, "PATIENCE", 5)
        spec = make_trial(settings={"dimension": 64, "intersection_temperature": 2.0})
        with pytest.raises(TrialFailed, match=r"after 80 examples: .* no two boxes overlap"):
            run(spec)

    def test_a_healthy_trial_is_not_given_up(
        self, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its loss starts at the value of no overlap, but it has a gradient."""
        monkeypatch.setattr(loop, "PATIENCE", 5)
        settings = {"dimension": 16, "intersection_temperature": 1.0, "learning_rate": 1e-5}
        assert run(make_trial(settings=settings))[-1].final


@pytest.mark.parametrize("micro", [4, 7])
def test_two_workers_train_as_one(make_trial: MakeTrial, tmp_path: Path, micro: int) -> None:
    """An odd batch, cached gradients on unequal slices, float64: the same weights and losses.

    Both workers cache them where one of them has more rows than a micro-batch.
    """
    settings = {"precision": "float64", "batch_size": 15, "micro_batch": micro}
    spec = make_trial(settings=settings, max_examples=60, milestones=(30, 60))
    spec = replace(spec, encoder=_without_dropout(spec.encoder), directory="")
    run_group(_worker, (spec, str(tmp_path)), 2)
    alone = run(spec)
    for rank in range(2):
        found = torch.load(tmp_path / f"rank-{rank}.pt", weights_only=True)
        assert found["losses"] == pytest.approx([p.metrics["train/loss"] for p in alone], rel=1e-9)
        assert found["accuracy"] == [p.metrics["direction/accuracy"] for p in alone]
        torch.testing.assert_close(found["weights"], torch.from_numpy(_weights(spec)))


def _worker(rank: int, spec: TrialSpec, folder: str) -> None:
    group = join_group(rank, 2, folder)
    said = list(train(spec, group))
    state = {
        "losses": [p.metrics["train/loss"] for p in said],
        "accuracy": [p.metrics["direction/accuracy"] for p in said],
        "weights": torch.from_numpy(_weights(spec, group)),  # the trial is gone before the group
    }
    torch.save(state, Path(folder, f"rank-{rank}.pt"))
