"""What the built-in encoder and the built-in decoder are told in ``builtin:tiny?name=value``."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sentune.errors import InvalidValue

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
