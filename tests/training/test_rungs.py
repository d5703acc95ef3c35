"""Rungs that are judged on a part of dev: which rows, how they are marked, what is the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from optuna.trial import FrozenTrial, create_trial

from sentune.corpora import SCHEMAS, Corpus, Kind
from sentune.corpora.batches import Held
from sentune.corpora.stratified import stratified_rows
from sentune.encoders import load_tokenizer
from sentune.launchers.run_trial import run_trial
from sentune.methods import find
from sentune.readouts.grid import ALPHA_1, ALPHA_2
from sentune.records import PART
from sentune.study.space.objectives import Objective
from sentune.study.store.trial_codec import MILESTONE, best_of_chain
from sentune.tasks import References, evaluate, tasks_for
from sentune.tasks.references import allowed_alphas, coarse
from sentune.training.checkpoints import CheckpointStore
from sentune.training.group import Group
from sentune.training.loop import train
from sentune.training.recipes import build, sentences
from sentune.training.recipes.sentences import SentenceValidator
from sentune.training.settings import TrainingSettings, split
from sentune.training.trial import Progress, TrialSpec

MakeTrial = Callable[..., TrialSpec]
ROWS = 30


def measured(progress: Progress) -> dict[str, float]:
    return {name: v for name, v in progress.metrics.items() if not name.startswith("train/")}


def test_rungs_have_a_part_and_the_end_has_all_of_dev(make_trial: MakeTrial, dev: Corpus) -> None:
    spec = replace(make_trial(), directory="")
    whole = [*train(spec, Group.single("cpu"))]
    part = [*train(replace(spec, rung_rows=ROWS), Group.single("cpu"))]
    assert [PART in progress.metrics for progress in part] == [True, True, False]
    assert measured(part[-1]) == measured(whole[-1]), "a part leaves the training as it is"
    assert part[0].metrics["train/loss"] == whole[0].metrics["train/loss"]

    rows = stratified_rows(dev, ROWS)
    assert part[0].metrics[PART] == len(rows) < dev.table.num_rows
    fewer = replace(dev, table=dev.table.take(pa.array(rows)))
    by_hand = [*train(replace(spec, dev=Held([fewer])), Group.single("cpu"))]
    assert measured(part[0]) == measured(by_hand[0]) != measured(whole[0])


def test_a_dev_that_is_no_larger_is_judged_whole(make_trial: MakeTrial, dev: Corpus) -> None:
    spec = replace(make_trial(rung_rows=dev.table.num_rows), directory="")
    assert all(PART not in progress.metrics for progress in train(spec, Group.single("cpu")))


def test_the_best_checkpoint_is_one_that_all_of_dev_has_judged(make_trial: MakeTrial) -> None:
    def falls(spec: TrialSpec, group: Group) -> Any:
        for progress in train(spec, group):
            if progress.milestone:  # the part flatters every rung
                progress.metrics[spec.objective] = 1.0 - progress.examples / 1_000
            yield progress

    spec = make_trial(rung_rows=ROWS)
    reports = [*run_trial(falls, spec, Group.single("cpu"))]
    assert [report.examples for report in reports] == [64, 128, 192]
    best = CheckpointStore.of(spec).best_progress()
    assert best is not None
    assert best.examples == 192


def judged(milestones: Sequence[Any]) -> FrozenTrial:
    return create_trial(
        value=0.5, user_attrs={f"{MILESTONE}{at}": one for at, one in enumerate(milestones)}
    )


def test_what_a_part_has_measured_is_no_best_milestone_beside_all_of_dev() -> None:
    up = Objective("a/b", "max")
    said = [{"metrics": {"a/b": value, **part}} for value, part in [(0.9, {PART: 5.0}), (0.7, {})]]
    assert best_of_chain(judged(said), up) == said[1]
    stopped = [{"metrics": {"a/b": value, PART: 5.0}} for value in (0.9, 0.7)]
    assert best_of_chain(judged(stopped), up) == stopped[1], "where it was stopped"


def test_a_first_look_at_interpretations_is_coarser() -> None:
    some = References(tuple("abcdef"), {1: 2, 2: 4, 3: 6})
    first, grids = coarse(some, {})
    assert first == References(("a", "b"), {1: 2})
    assert grids["references"] == (1,)
    assert set(grids["alpha_1"]) < set(ALPHA_1.grid)
    assert set(grids["alpha_2"]) < set(ALPHA_2.grid)
    # what was set stays, and where one pair of alphas is allowed it stays so
    first, grids = coarse(some, {"references": (2,), "alpha_1": (0.5,), "alpha_2": (0.3, 0.6)})
    assert (first.counts, grids["alpha_1"], grids["alpha_2"]) == ((2,), (0.5,), (0.6,))
    assert allowed_alphas(grids) == [(0, 0)]


def test_sweeps_at_a_rung_are_of_fewer_pairs_and_references_and_the_end_has_them_all(
    make_trial: MakeTrial, encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sentune.training.recipes.base.INTERPRETED", 20)
    labels = [["entailment"], ["neutral"], ["entailment", "neutral"]] * 20
    rows = {"premise": map(str, range(60)), "hypothesis": map(str, range(1, 61))}
    table = pa.table(
        {**{name: [*texts] for name, texts in rows.items()}, "labels": labels},
        schema=SCHEMAS[Kind.SEVERAL_LABELS],
    )
    pairs = Corpus(spec="ambient:made", kind=Kind.SEVERAL_LABELS, table=table, fingerprint="")
    references = References(tuple(f"word {i}" for i in range(12)), {2: 4, 4: 8, 6: 12})
    spec = make_trial(dev=Held([pairs]), references=Held(references), rung_rows=10_000)
    method, training = split(spec.settings, find("gumbel"))
    model = build(find("gumbel"), method, training, encoder, 0)
    validator = SentenceValidator(spec, training, torch.device("cpu"), load_tokenizer(encoder))
    rung, end = validator.validate(model, rung=True), validator.validate(model)
    assert rung.metrics[PART] <= 24
    assert PART not in end.metrics
    assert rung.readouts["ambiguous-rte/references"] == 2
    assert rung.metrics.keys() - {PART} == end.metrics.keys()
    whole = tasks_for(pairs, references=references)
    model.eval()
    again = evaluate(whole, partial(validator.embed, model), model.geometry)
    assert again.metrics == end.metrics


def test_trials_of_a_process_tokenise_dev_once(
    make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = replace(make_trial(settings={"max_length": 31}), directory="")
    tokenizer = type(load_tokenizer(spec.encoder))
    asked: list[int] = []
    encode = tokenizer.encode

    def counted(self: Any, texts: list[str], *rest: Any) -> list[np.ndarray]:
        asked.append(len(texts))
        return encode(self, texts, *rest)

    monkeypatch.setattr(tokenizer, "encode", counted)
    first = [*train(spec, Group.single("cpu"))]
    once = sum(asked)
    second = [*train(spec, Group.single("cpu"))]
    assert sum(asked) == once > 0
    assert measured(first[-1]) == measured(second[-1])


def test_tokens_of_many_sentences_are_not_kept(
    encoder: str, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sentences, "MOST_KNOWN", 3)
    sentences.known_tokens.cache_clear()
    spec, training = make_trial(), TrainingSettings(max_length=32)
    spec = replace(spec, encoder=encoder)
    validator = SentenceValidator(spec, training, torch.device("cpu"), load_tokenizer(encoder))
    few, many = ["a dog", "a cat"], ["a cat", "the sun", "no rain", "a dog"]
    validator._tokenise(few)
    found = validator._tokenise(many)
    assert [rows.tolist() for rows in found] == [
        rows.tolist() for rows in load_tokenizer(encoder).encode(many, 32)
    ]
    assert sorted(sentences.known_tokens(encoder, 32)) == sorted(few)
    sentences.known_tokens.cache_clear()
