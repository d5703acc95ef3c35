"""The corpora that the package makes itself, each from a seed.

``builtin:nli`` (premise, entailment, neutral, contradiction): ``sentences`` holds the
words, the structured form and its English, ``moves`` and ``derive`` the logic, ``generate`` the
stream. ``builtin:operations`` and ``builtin:scenes``: ``operations``. ``builtin:stories`` and
``builtin:similarity``: ``stories``.
"""

from __future__ import annotations

from sentune.corpora.builtin.generate import Derivation, derivations, triplets

__all__ = ["Derivation", "derivations", "triplets"]
