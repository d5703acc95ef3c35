"""WikiSplit and DiscoFuse: one sentence and the two that tell the same."""

from __future__ import annotations

from collections.abc import Iterator

from sentune.corpora.formats.columns import columns, headed
from sentune.corpora.formats.reading import BadFieldError, Log, Row, sentence
from sentune.corpora.formats.spec import Spec

WIKISPLIT_OPTIONS = {"operation": "difference, fusion or both; default difference, as InterSent"}
_BETWEEN = "<::::>"
_PARTS = ("incoherent_first_sentence", "incoherent_second_sentence")
_WHOLES = ("coherent_first_sentence", "coherent_second_sentence")


def wikisplit(spec: Spec, log: Log) -> Iterator[Row]:
    """Rows of WikiSplit (Botha et al. 2018): ``complex TAB simple1 <::::> simple2``.

    Difference: complex, simple1 -> simple2. Fusion: simple1, simple2 -> complex. ``both`` gives
    the two rows of each line, difference first.
    """
    asked = spec.choice("operation", "difference", ("difference", "fusion", "both"))
    for line, (whole, parts) in columns(spec.path, log, fewest=2, most=2):
        try:
            texts = sentence(whole, "the complex sentence"), *_two(parts)
        except BadFieldError as error:
            log.quarantine(spec.path, line, str(error))
            continue
        if asked != "fusion":
            yield "difference", *texts
        if asked != "difference":
            yield "fusion", texts[1], texts[2], texts[0]


def discofuse(spec: Spec, log: Log) -> Iterator[Row]:
    """Fusion of DiscoFuse's official TSV (Geva et al. 2019): incoherent pair -> coherent text.

    The coherent text is one sentence or two; two are joined by a space.
    """
    for line, fields in headed(spec.path, log, *_PARTS, *_WHOLES):
        try:
            first, second = (sentence(fields[name], name) for name in _PARTS)
            whole = sentence(fields[_WHOLES[0]], _WHOLES[0])
        except BadFieldError as error:
            log.quarantine(spec.path, line, str(error))
        else:
            yield "fusion", first, second, f"{whole} {fields[_WHOLES[1]].strip()}".strip()


def _two(parts: str) -> tuple[str, str]:
    texts = parts.split(_BETWEEN)
    if len(texts) != 2:
        raise BadFieldError(f"{len(texts)} simple sentences where there should be 2")
    return sentence(texts[0], "simple sentence 1"), sentence(texts[1], "simple sentence 2")
