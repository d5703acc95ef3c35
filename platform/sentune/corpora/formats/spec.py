"""Parse specifications of corpora, ``FORMAT:PATH?key=value&...``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from sentune.errors import InvalidValue

FIELD = "corpus"
BAD_ROWS = "100"
"""Default limit of bad rows of a corpus."""

_DIGITS = 18  # maximum digits of an integer option, because Python refuses to read 5,000


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A parsed corpus specification.

    Attributes:
        path: local path, fsspec URI or name, depending on the format.
        options: percent-decoded options, in their order.
    """

    text: str
    format: str
    path: str
    options: Mapping[str, str]

    def choice(self, option: str, default: str, allowed: Iterable[str]) -> str:
        """Return the value of an option; raise ``InvalidValue`` if it is not in ``allowed``."""
        value, names = self.options.get(option, default), tuple(allowed)
        if value not in names:
            *most, last = names
            listed = f"{', '.join(most)} or {last}" if most else last
            raise self.refused(option, f"use {listed}", value)
        return value

    def some_of(self, option: str, allowed: Sequence[str], instead: str = "") -> list[str]:
        """Return the names in an option ``A+B`` in the order of ``allowed``; none if not given.

        Raises ``InvalidValue`` for a name that is not in ``allowed``; its message offers what may
        be written ``instead``, too.
        """
        given = self.options[option].split("+") if option in self.options else []
        if unknown := [name for name in given if name not in allowed]:
            fix = f"use {instead}some of {', '.join(allowed)} with + between them"
            raise self.refused(option, fix, "+".join(unknown))
        return [name for name in allowed if name in given]

    def integer(self, option: str, default: int, *, minimum: int) -> int:
        """Return an integer option; raise ``InvalidValue`` if it is none or below ``minimum``."""
        text = self.options.get(option, str(default))
        if not re.fullmatch(rf"-?\d{{1,{_DIGITS}}}", text) or int(text) < minimum:
            raise self.refused(option, f"use an integer of at least {minimum}")
        return int(text)

    def mapping(self, option: str) -> dict[str, str]:
        """Return an option written ``a=b,c=d`` or ``a:b,c:d`` as a dict, empty if not given."""
        text = self.options.get(option, "")
        pairs = [re.split("[=:]", item, maxsplit=1) for item in text.split(",") if item]
        if any(len(pair) < 2 or not all(pair) for pair in pairs):
            raise self.refused(option, "write it as a=b,c=d")
        return dict(pairs)

    def refused(self, option: str, fix: str, value: str | None = None) -> InvalidValue:
        """Return the error for an option; ``value`` is its wrong part, by default the whole."""
        value = self.options.get(option, "") if value is None else value
        return InvalidValue(f"{FIELD} option {option}", value, fix)


def parse(text: str, formats: Iterable[str]) -> Spec:
    """Parse a specification.

    The path ends at the last ``?``. A ``?`` in the path is written ``%3F``.

    Raises:
        InvalidValue: the format is unknown, the path is missing, or an option has no value or is
            given twice.
    """
    name, colon, rest = text.partition(":")
    names = tuple(formats)
    if not colon or name not in names:
        fix = f"write FORMAT:PATH with one of the formats {', '.join(names)}"
        raise InvalidValue(FIELD, text, fix)
    path, mark, query = rest.rpartition("?") if "?" in rest else (rest, "", "")
    if not path:
        raise InvalidValue(FIELD, text, f"give the path after {name}:")
    options: dict[str, str] = {}
    for item in query.split("&") if mark else ():
        key, equals, value = item.partition("=")
        if not (key and equals):
            raise InvalidValue(FIELD, text, f"write the option {item!r} as key=value")
        if key in options:
            raise InvalidValue(FIELD, text, f"give the option {key} once")
        options[key] = unquote(value)
    # %3F stands for ?, and %253F for %3F; nothing else in a path is decoded
    path = re.sub("%(25)?3[Ff]", lambda found: "%3F" if found[1] else "?", path)
    return Spec(text=text, format=name, path=path, options=options)


def parse_bad_rows(text: str) -> tuple[float, float]:
    """Return the maximum number and share of bad rows that ``N`` or ``P%`` allows."""
    if re.fullmatch(rf"\d{{1,{_DIGITS}}}", text):
        return int(text), math.inf
    if re.fullmatch(r"\d{1,3}(\.\d+)?%", text) and float(text[:-1]) <= 100:
        return math.inf, float(text[:-1]) / 100
    fix = "give a number of rows (500) or a share of them (2%)"
    raise InvalidValue("--bad-rows or ?bad_rows", text, fix)


def allow_bad_rows(text: str, most: str) -> str:
    """Add the option ``bad_rows`` to a specification unless it has it already."""
    if re.search(r"\?([^?]*&)?bad_rows=[^?]*$", text):
        return text
    return f"{text}{'&' if '?' in text else '?'}bad_rows={most}"


def check_options(spec: Spec, allowed: Mapping[str, str]) -> None:
    """Raise ``InvalidValue`` for an option that the format does not have."""
    for option in spec.options:
        if option not in allowed:
            listing = "; ".join(f"{name} ({meaning})" for name, meaning in allowed.items())
            raise InvalidValue(f"{FIELD} option", option, f"{spec.format} allows {listing}")
