"""Removes credentials from texts that are printed, logged, stored or uploaded."""

from __future__ import annotations

import re
from typing import Any

_OPEN = r"(?:password|passwd|passphrase|pwd|secret|(?:access|auth|bearer|session)token)"
_APART = r"(?:token|signature|sig|credentials?|api[-_]?key|access[-_]?key(?:[-_]?id)?)"
_NAME = rf"(?:[A-Za-z0-9_-]*{_OPEN}|(?:[A-Za-z0-9_-]*[-_])?{_APART})"
"""Matches ``sslpassword`` and ``PGPASSWORD``, but not ``tokenizer`` and ``max_tokens``."""

_PORT = r"\d+(?:[^\w@%!$.-]|$)"
_USER_INFO = re.compile(rf"(?<=://)(?:[^/\s'\"]*@|[^/\s:'\"@]*:(?!{_PORT})\S*@)")
"""The second alternative matches a password with a slash or quote, as in keys of object stores."""
_ASSIGNED = re.compile(rf"(?i)(?<![A-Za-z0-9])({_NAME}\s*=\s*['\"]?)[^\s&'\";,]+")
_QUOTED = re.compile(rf"(?i)(['\"]{_NAME}['\"]\s*:\s*)(?:'[^']*'|\"[^\"]*\")")
_OPTION = re.compile(rf"(?i)(--{_NAME}\s+)(?!--)\S+")
_HEADER = re.compile(r"(?i)(authorization['\"]?\s*[:=]\s*['\"]?(?:bearer|basic)\s+)[^\s'\"]+")
_NAMED = re.compile(rf"(?i){_NAME}")


def without_credentials(value: Any) -> Any:
    """Return a copy of a text, or of lists and dicts of texts, without credentials.

    Credentials are ``user:password@`` in a URI; a value assigned to a name that ends in password,
    token, secret or similar (``?sig=...``, ``AWS_SECRET_ACCESS_KEY=...``), given to an option of
    such a name (``--api-key ...``) or stored under such a key of a dict; and HTTP authorizations.

    >>> without_credentials("postgresql://ann:pw@db/optuna?token=x")
    'postgresql://db/optuna?token=***'
    """
    if isinstance(value, str):
        text = _USER_INFO.sub("", value)
        for pattern in (_ASSIGNED, _OPTION, _HEADER):
            text = pattern.sub(r"\1***", text)
        return _QUOTED.sub(r"\1'***'", text)
    if isinstance(value, dict):
        secret = {key for key in value if isinstance(key, str) and _NAMED.fullmatch(key)}
        return {
            without_credentials(key): "***"
            if key in secret and isinstance(item, str)
            else without_credentials(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [without_credentials(item) for item in value]
    return value
