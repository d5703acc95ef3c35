"""Built-in corpora, generated from a seed.

``builtin:nli`` (premise, entailment, neutral, contradiction) has its words, structured sentences
and their English in ``sentences``, its logic in ``moves`` and ``derive``, and its stream in
``generate``. ``builtin:operations`` and ``builtin:scenes`` are in ``operations``,
``builtin:stories`` and ``builtin:similarity`` in ``stories``.
"""
