"""The families of methods: what reading, probing, training and keeping differ in between them."""

from __future__ import annotations

from sentune.job.families.base import Family
from sentune.job.families.generative import Operations, Words
from sentune.job.families.sentences import Sentences
from sentune.job.families.word_vectors import WordVectors
from sentune.job.options import StudyOptions
from sentune.study.space.space import SearchSpace

FAMILIES: dict[str, type[Family]] = {
    family.name: family for family in (Sentences, Operations, Words, WordVectors)
}


def make_job(options: StudyOptions, space: SearchSpace) -> Family:
    """The job of the family that the options are for."""
    return FAMILIES[options.family](options, space)


__all__ = ["FAMILIES", "Family", "make_job"]
