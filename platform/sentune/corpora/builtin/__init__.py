"""``builtin:nli``: a seeded generator of premise, entailment, neutral and contradiction.

``lexicon`` holds the words, ``sentences`` the structured form and its English, ``moves`` and
``derive`` the logic, ``generate`` the stream.
"""

from __future__ import annotations

from sentune.corpora.builtin.generate import Derivation, Group, derivations, groups, triplets

__all__ = ["Derivation", "Group", "derivations", "groups", "triplets"]
