"""The words of ``builtin:operations``, by slot; no word has two slots."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ADJECTIVES = _words("small old young tired happy angry hungry clever quiet brave")
SUBJECTS = _words(
    "dog cat horse fox bear monkey boy girl farmer doctor teacher singer soldier sailor pilot "
    "queen king baker painter thief"
)
ADVERBS = _words("quickly slowly gladly secretly calmly suddenly carefully eagerly")
DEEDS = _words(
    "chased found lost took hid carried dropped kicked washed bought sold stole threw cleaned "
    "watched"
)
LOOKS = _words("red blue green yellow black white wooden golden heavy broken")
THINGS = _words(
    "ball box lamp chair cup book hat drum bell basket ladder clock mirror blanket bottle kite "
    "shoe key coin rope"
)
ACTS = _words("slept danced sang waited rested laughed cried jumped walked played talked worked")
PLACES = _words(
    "garden kitchen park forest street school market castle harbor tower valley barn office "
    "cellar station"
)
