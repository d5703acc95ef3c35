"""``FORMAT:PATH?key=value&...``: the one way in which a corpus is named."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from sentune.errors import InvalidValue

FIELD = "corpus"
BAD_ROWS = "100"
"""Bad rows that a corpus may have where nothing else is asked for."""

_DIGITS = 18  # of an integer option; Python refuses to read 5,000 of them


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A corpus specification, taken apart.

    Attributes:
        path: local path, fsspec URI or name, as the format understands it.
        options: in the order given, percent-decoded.
    """

    text: str
    format: str
    path: str
    options: Mapping[str, str]

    def choice(self, option: str, default: str, allowed: Iterable[str]) -> str:
        """Return the value of an option that has a fixed set of values; refuse any other."""
        value, names = self.options.get(option, default), tuple(allowed)
        if value not in names:
            raise InvalidValue(f"{FIELD} option {option}", value, f"use {_either(names)}")
        return value

    def integer(self, option: str, default: int, *, minimum: int) -> int:
        """The value of an integer option; refuses what is no integer or below ``minimum``."""
        text = self.options.get(option, str(default))
        if not re.fullmatch(rf"-?\d{{1,{_DIGITS}}}", text) or int(text) < minimum:
            fix = f"use an integer of at least {minimum}"
            raise InvalidValue(f"{FIELD} option {option}", text, fix)
        return int(text)

    def mapping(self, option: str) -> dict[str, str]:
        """Return the pairs of an option written ``a=b,c=d`` or ``a:b,c:d``; empty without it."""
        text = self.options.get(option, "")
        pairs = [re.split("[=:]", item, maxsplit=1) for item in text.split(",") if item]
        if any(len(pair) < 2 or not all(pair) for pair in pairs):
            raise InvalidValue(f"{FIELD} option {option}", text, "write it as a=b,c=d")
        return dict(pairs)


def parse(text: str, formats: Iterable[str]) -> Spec:
    """Take a specification apart.

    The path ends at the last ``?``; ``%3F`` stands for a ``?`` in it. Options are percent-decoded.

    Raises:
        InvalidValue: for an unknown format, a missing path or an option without a value.
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
    # %3F is a ? of the path, and %253F stands for %3F; all else in a path is as it is written
    path = re.sub("%(25)?3[Ff]", lambda found: "%3F" if found[1] else "?", path)
    return Spec(text=text, format=name, path=path, options=options)


def parse_bad_rows(text: str) -> tuple[float, float]:
    """Return the largest count and the largest share of bad rows that ``N`` or ``P%`` allows."""
    if re.fullmatch(rf"\d{{1,{_DIGITS}}}", text):
        return int(text), math.inf
    if re.fullmatch(r"\d{1,3}(\.\d+)?%", text) and float(text[:-1]) <= 100:
        return math.inf, float(text[:-1]) / 100
    raise InvalidValue(
        "--bad-rows or ?bad_rows", text, "give a number of rows (500) or a share of them (2%)"
    )


def allow_bad_rows(text: str, most: str) -> str:
    """Return a specification with the option ``bad_rows``, unless it has that already."""
    name, mark, query = text.rpartition("?") if "?" in text else (text, "", "")
    options = query.split("&") if mark else []
    if any(option.startswith("bad_rows=") for option in options):
        return text
    return f"{name}?{'&'.join([*options, f'bad_rows={most}'])}"


def check_options(spec: Spec, allowed: Mapping[str, str]) -> None:
    """Refuses an option that the format does not have, naming those it has."""
    for option in spec.options:
        if option not in allowed:
            listing = "; ".join(f"{name} ({meaning})" for name, meaning in allowed.items())
            raise InvalidValue(f"{FIELD} option", option, f"{spec.format} allows {listing}")


def _either(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
