"""The built-in stories, and pairs of their sentences with a score."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from sentune.corpora import Kind, read
from sentune.corpora.builtin import stories
from sentune.corpora.builtin.stories import ADJECTIVES, MANNERS, PEOPLE, TIMES, TOPICS
from sentune.encoders.words.learned import learn_words
from sentune.errors import InvalidValue

FUNCTION = {"the", "a", "an", "is", "there", "in", "on", "at", "near"}
SHARED = FUNCTION | {w for pair in PEOPLE for w in pair} | set(ADJECTIVES) | set(MANNERS)
SHARED |= {word for time in TIMES for word in time.split()}
TOPIC_OF = {
    word: topic.name
    for topic in TOPICS
    for pair in (*topic.actors, *topic.places,
                 *(c for a in topic.activities for c in (a.verb, *a.objects)))
    for text in pair for word in text.split() if word not in FUNCTION
}  # fmt: skip


def topics(sentence: str) -> set[str]:
    return {TOPIC_OF[word] for word in sentence.split() if word in TOPIC_OF}


def columns(spec: str, kind: Kind, *names: str) -> list[list]:
    table = read(spec, kind).table
    return [table.column(name).to_pylist() for name in names]


def test_no_word_belongs_to_two_topics() -> None:
    listed = defaultdict(set)
    for topic in TOPICS:
        concepts = [c for a in topic.activities for c in (a.verb, *a.objects)]
        for concept in {*concepts, *topic.actors, *topic.places}:
            for text in concept:
                for word in set(text.split()) - FUNCTION:
                    listed[word].add((topic.name, concept))
    assert {word: places for word, places in listed.items() if len(places) > 1} == {}
    assert not set(listed) & SHARED


def test_rows_are_neighbours_in_a_story_of_one_topic() -> None:
    told = list(islice(stories.stories("train", 3), 50))
    assert {len(story) for story in told} == set(range(4, 9))
    for story in told:
        assert len({topic for sentence in story for topic in topics(sentence)}) == 1
    expected = [pair for story in told for pair in pairwise(story)][:150]
    texts, following = columns(
        "builtin:stories?size=150&seed=3", Kind.ADJACENT_SENTENCES, "text", "following"
    )
    assert list(zip(texts, following, strict=True)) == expected


def test_what_comes_next_shares_meaning_more_often_than_words() -> None:
    texts, following = columns("builtin:stories", Kind.ADJACENT_SENTENCES, "text", "following")
    assert len(texts) == 30_000
    vocabulary = {word for sentence in texts for word in sentence.split()}
    assert 300 <= len(vocabulary) <= 500
    shared = [
        set(a.split()) & set(b.split()) - SHARED for a, b in zip(texts, following, strict=True)
    ]
    assert all(topics(a) == topics(b) for a, b in zip(texts, following, strict=True))
    assert 0.2 < np.mean([bool(words) for words in shared]) < 0.8


@pytest.mark.parametrize("name", ["stories", "similarity"])
def test_splits_and_seeds_differ_and_come_again(name: str) -> None:
    kind = Kind.SENTENCES
    specs = [f"builtin:{name}?size=50&split={s}&seed={n}" for s in ("dev", "test") for n in (0, 1)]
    prints = [read(spec, kind).fingerprint for spec in specs]
    assert len(set(prints)) == 4
    assert prints == [read(spec, kind).fingerprint for spec in specs]
    with pytest.raises(InvalidValue, match="train, dev or test"):
        read(f"builtin:{name}?split=all", kind)


def test_sentences_are_distinct() -> None:
    (texts,) = columns("builtin:stories?size=2000", Kind.SENTENCES, "text")
    pairs = columns("builtin:stories?size=2000", Kind.ADJACENT_SENTENCES, "text", "following")
    assert len(texts) == len(set(texts))
    assert set(texts) == {*pairs[0], *pairs[1]}


def test_splits_of_similarity_share_no_sentence() -> None:
    found = []
    for split in ("train", "dev", "test"):
        for seed in (0, 1):
            spec = f"builtin:similarity?split={split}&seed={seed}"
            first, second = columns(spec, Kind.SCORED_PAIRS, "sentence1", "sentence2")
            assert all(a != b for a, b in zip(first, second, strict=True))
            found.append((split, {*first, *second}))
    for one, sentences in found:
        assert all(one == other or not sentences & others for other, others in found)


def concepts(sentence: str) -> dict[str, object]:
    """What a sentence says, found again from its words."""
    words = set(sentence.split())
    said: dict[str, object] = {"topic": topics(sentence).pop(), "place": None}
    topic = next(topic for topic in TOPICS if topic.name == said["topic"])
    said["actor"] = next(c for c in (*PEOPLE, *topic.actors) if words & set(c))
    said["verb"] = next(a.verb for a in topic.activities if words & set(a.verb))
    said["thing"] = next(c for a in topic.activities for c in a.objects if words & set(c))
    for place in topic.places:
        if any(text in sentence for text in place):
            said["place"] = place
    return said


def test_scores_tell_what_is_shared() -> None:
    names = ("sentence1", "sentence2", "score")
    rows = zip(*columns("builtin:similarity", Kind.SCORED_PAIRS, *names), strict=True)
    weights = {"topic": 1.0, "actor": 1.0, "verb": 1.0, "thing": 1.5, "place": 0.5}
    scores = []
    for first, second, score in rows:
        one, other = concepts(first), concepts(second)
        same = {part for part in weights if one[part] == other[part]}
        elsewhere = 0.5 * ("actor" in same)
        assert score == (sum(weights[p] for p in same) if "topic" in same else elsewhere)
        scores.append(score)
    assert {0.0, 5.0} < set(scores)
    assert 0.1 < np.mean(np.array(scores) < 1) < 0.3
    assert 0.1 < np.mean(np.array(scores) == 5) < 0.3


def test_stories_teach_what_words_alone_do_not_tell(tmp_path: Path) -> None:
    (texts,) = columns("builtin:stories?size=5000", Kind.SENTENCES, "text")
    words = learn_words(texts, "builtin:ppmi?width=50", tmp_path)
    names = ("sentence1", "sentence2", "score")
    first, second, scores = columns("builtin:similarity?split=dev", Kind.SCORED_PAIRS, *names)
    sets = [(set(a.split()), set(b.split())) for a, b in zip(first, second, strict=True)]
    overlap = [len(a & b) / len(a | b) for a, b in sets]

    def means(sentences: list[str]) -> np.ndarray:
        rows = words.ids(sentences)
        parts = np.split(np.asarray(words.vectors)[rows.ids], rows.offsets[1:-1])
        found = np.array([part.mean(axis=0) for part in parts])
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    by_words = spearmanr(overlap, scores).statistic
    by_topic = spearmanr((means(first) * means(second)).sum(axis=1), scores).statistic
    assert 0.1 < by_words < 0.4
    assert by_topic > by_words + 0.3
