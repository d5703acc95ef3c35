"""Weights of mixed corpora as settings of a search."""

from __future__ import annotations

from search_spaces.intersent import SPACE
from sentune.corpora.mixing import apart, weight_names
from sentune.job.families.trained import with_weights


def test_each_corpus_has_a_weight_by_its_format() -> None:
    names = weight_names(["wikisplit:a.tsv", "compression:b", "wikisplit:c"])
    assert names == ("mix_wikisplit", "mix_compression", "mix_wikisplit_2")
    others = {"weight_decay": 1.0, "contrastive_weight": 1.0}
    others["mix_ratio"] = 0.5  # of a user's own method
    assert apart(dict.fromkeys(names, 2.0) | others, names) == (others, (2.0, 2.0, 2.0))


def test_all_weights_but_the_first_are_searched_from_1() -> None:
    names = weight_names(["wikisplit:a", "compression:b"])
    space = with_weights(SPACE, names)
    assert "mix_wikisplit" not in space.settings
    assert space.fixed["mix_wikisplit"] == 1.0
    assert space.first_points()[0]["mix_compression"] == 1.0
    fixed = space.narrow({"mix_wikisplit": "3", "mix_compression": "0.5"})
    assert (fixed.fixed["mix_wikisplit"], fixed.fixed["mix_compression"]) == (3, 0.5)
    assert "mix_compression" not in fixed.settings


def test_weights_are_taken_out_of_a_trials_settings() -> None:
    kept, weights = apart({"alpha": 1.0, "mix_b": 2, "mix_a": 0.5}, ("mix_a", "mix_b"))
    assert kept == {"alpha": 1.0}
    assert weights == (0.5, 2.0)
    assert apart({"alpha": 1.0}, ("mix_a",)) == ({"alpha": 1.0}, (1.0,))
