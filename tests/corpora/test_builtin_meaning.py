"""Every label of ``builtin:nli`` against truth in random scenes."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from sentune.corpora.builtin.generate import Derivation, derivations
from sentune.corpora.builtin.sentences import Sentence

sys.path.insert(0, str(Path(__file__).parent))
from scenes import draw_scene, true_in

PAIRS = 150
SCENES = 150


@pytest.fixture(scope="module", params=["train", "test"])
def made(request: pytest.FixtureRequest) -> list[Derivation]:
    return list(islice(derivations(request.param, 3), PAIRS))


def table(premise: Sentence, hypothesis: Sentence, seed: int) -> dict[tuple[bool, bool], int]:
    """How often premise and hypothesis were true or false together."""
    rng = Random(seed)
    counts = dict.fromkeys([(a, b) for a in (True, False) for b in (True, False)], 0)
    for _ in range(SCENES):
        scene = draw_scene(rng, [premise, hypothesis])
        counts[true_in(premise, scene), true_in(hypothesis, scene)] += 1
    return counts


def told(premise: Sentence, hypothesis: Sentence) -> str:
    return f"{premise.text()!r} -> {hypothesis.text()!r}"


def test_no_scene_makes_an_entailed_sentence_false(made: list[Derivation]) -> None:
    strict = 0
    for seed, group in enumerate(made):
        counts = table(group.premise, group.entailment, seed)
        assert counts[True, False] == 0, told(group.premise, group.entailment)
        strict += counts[False, True] > 0
    # and the other direction does not hold; a few scenes are too rare to be drawn
    assert strict >= 0.95 * len(made)


def test_no_scene_makes_premise_and_contradiction_true(made: list[Derivation]) -> None:
    for seed, group in enumerate(made):
        counts = table(group.premise, group.contradiction, seed)
        assert counts[True, True] == 0, told(group.premise, group.contradiction)


def test_a_premise_leaves_its_neutral_sentence_open(made: list[Derivation]) -> None:
    open_either_way = 0
    for seed, group in enumerate(made):
        counts = table(group.premise, group.neutral, seed)
        open_either_way += counts[True, True] > 0 and counts[True, False] > 0
        if group.neutral_entails:
            assert counts[False, True] == 0, told(group.neutral, group.premise)
    assert open_either_way >= 0.95 * len(made)


def test_reverse_labels_of_mixed_neutrals_hold(made: list[Derivation]) -> None:
    mixed = [(i, g) for i, g in enumerate(made) if not g.neutral_entails]
    refuted = sum(table(g.premise, g.neutral, i)[False, True] > 0 for i, g in mixed)
    assert refuted >= 0.95 * len(mixed)


def test_every_premise_can_be_true_and_can_be_false(made: list[Derivation]) -> None:
    contingent = 0
    for seed, group in enumerate(made):
        counts = table(group.premise, group.entailment, seed)
        true = counts[True, True] + counts[True, False]
        contingent += 0 < true < SCENES
    assert contingent >= 0.95 * len(made)
