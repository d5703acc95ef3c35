"""What ``builtin:tiny?name=value`` as encoder and as decoder share: options, folder, tokenizer."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from sentune.encoders.word_pieces import count_words
from sentune.errors import InvalidValue
from sentune.io.folders import new_folder

Width = Annotated[int, Field(ge=8, le=1024)]
Inner = Annotated[int, Field(ge=8, le=4096)]


class TinyOptions(BaseModel):
    """Options of a small transformer; a subclass has the defaults of its widths."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    part: ClassVar[str]
    """What is built, which is also the name of its option."""

    layers: int = Field(2, ge=1, le=24)
    """Transformer layers."""
    width: Width
    """Width of the hidden states; a multiple of ``heads``."""
    heads: int = Field(4, ge=1, le=16)
    """Attention heads."""
    inner: Inner
    """Width of the feed-forward layers."""
    dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Dropout of hidden states and attention."""
    vocabulary: int = Field(8000, ge=100, le=60000)
    """Most word pieces, special tokens included."""
    positions: int = Field(128, ge=8, le=4096)
    """Most tokens of a sentence."""

    @classmethod
    def parse(cls, spec: str) -> Self:
        """Read ``builtin:tiny?layers=2&width=64``.

        Raises:
            InvalidValue: another name, an option that is unknown or out of range, or a width that
                the heads cannot share.
        """
        field = f"--{cls.part}"
        name, _, query = spec.removeprefix("builtin:").partition("?")
        if name != "tiny":
            raise InvalidValue(field, spec, f"the built-in {cls.part} is builtin:tiny")
        try:
            options = cls.model_validate(dict(parse_qsl(query, strict_parsing=bool(query))))
        except (ValidationError, ValueError) as error:
            allowed = ", ".join(cls.model_fields)
            raise InvalidValue(field, spec, f"options are {allowed}: {error}") from error
        if options.width % options.heads:
            raise InvalidValue(field, spec, "width must be a multiple of heads")
        return options

    def prepare(
        self,
        texts: Iterable[str],
        cache: Path,
        name: str,
        write: Callable[[Counter[str], Path], None],
    ) -> Path:
        """Return the folder ``NAME-HASH``; the hash is of the texts' words and the options.

        Args:
            write: fills an empty folder, given the words and their counts.
        """
        words = count_words(texts)
        if not words:
            fix = "the corpus has no words to learn from"
            raise InvalidValue(f"--{self.part}", "builtin:tiny", fix)
        content = json.dumps([self.model_dump(), sorted(words.items())], ensure_ascii=False)
        folder = cache / f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"
        return new_folder(folder, lambda beside: write(words, beside))

    def save_tokenizer(self, tokenizer: Tokenizer, folder: Path, **tokens: Any) -> None:
        """Write the tokenizer for transformers; ``tokens`` are special ones beside BERT's."""
        PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            model_max_length=self.positions,
            pad_token="[PAD]",
            unk_token="[UNK]",
            cls_token="[CLS]",
            sep_token="[SEP]",
            mask_token="[MASK]",
            **tokens,
        ).save_pretrained(str(folder))
