"""Built-in corpora, generated from a seed.

``builtin:nli`` (premise, entailment, neutral, contradiction) has its words, structured sentences
and their English in ``sentences``, its logic in ``moves`` and ``derive``, and its stream in
``generate``. ``builtin:operations`` and ``builtin:scenes`` are in ``operations``,
``builtin:stories`` and ``builtin:similarity`` in ``stories``.
"""

from __future__ import annotations

from sentune.corpora.builtin.generate import Derivation, derivations, triplets

__all__ = ["Derivation", "derivations", "triplets"]
