"""Weights of mixed corpora as settings of a search."""

from __future__ import annotations

from search_spaces.intersent import SPACE
from sentune.corpora.weights import apart, is_weight, weight_names
from sentune.job.weights import with_weights


def test_each_corpus_has_a_weight_by_its_format() -> None:
    names = weight_names(["wikisplit:a.tsv", "compression:b", "wikisplit:c"])
    assert names == ("weight_wikisplit", "weight_compression", "weight_wikisplit_2")
    assert all(map(is_weight, names))


def test_all_weights_but_the_first_are_searched_from_1() -> None:
    names = weight_names(["wikisplit:a", "compression:b"])
    space = with_weights(SPACE, names)
    assert "weight_wikisplit" not in space.settings
    assert space.fixed["weight_wikisplit"] == 1.0
    assert space.first_points()[0]["weight_compression"] == 1.0
    fixed = space.narrow({"weight_wikisplit": "3", "weight_compression": "0.5"})
    assert (fixed.fixed["weight_wikisplit"], fixed.fixed["weight_compression"]) == (3, 0.5)
    assert "weight_compression" not in fixed.settings


def test_weights_are_taken_out_of_a_trials_settings() -> None:
    kept, weights = apart({"alpha": 1.0, "weight_b": 2, "weight_a": 0.5}, ("weight_a", "weight_b"))
    assert kept == {"alpha": 1.0}
    assert weights == (0.5, 2.0)
    assert apart({"alpha": 1.0}, ("weight_a",)) == ({"alpha": 1.0}, (1.0,))
