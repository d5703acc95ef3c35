"""From ``--decoder`` to a local folder that every worker can load."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sentune.encoders.decoders.tiny import TinyDecoderSpec, prepare_tiny_decoder
from sentune.encoders.prepare import prepare
from sentune.errors import InvalidValue


def prepare_decoder(spec: str, texts: Iterable[str], cache: Path) -> str:
    """Absolute path of a folder with config, tokenizer and, unless built in, weights.

    Args:
        spec: ``builtin:tiny[?layers=2&width=128...]``, a local folder, or a name on the hub, of a
            decoder, an encoder-decoder, or an encoder such as BERT that can be made a decoder.
        texts: sentences that a built-in decoder's vocabulary is learned from.
        cache: folder for built-in decoders; the same texts and options give the same folder.

    Raises:
        InvalidValue: no such folder, no such name, or the hub cannot be reached.
    """
    if spec.startswith("builtin:"):
        return str(prepare_tiny_decoder(TinyDecoderSpec.parse(spec), texts, cache))
    try:
        return prepare(spec, (), cache)
    except InvalidValue as error:
        raise InvalidValue("--decoder", error.value, error.fix) from error
