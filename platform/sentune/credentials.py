"""Keeps credentials out of all that is printed, logged, tagged, stored or uploaded."""

from __future__ import annotations

import re
from typing import Any

_OPEN = r"(?:password|passwd|passphrase|pwd|secret|(?:access|auth|bearer|session)token)"
_APART = r"(?:token|signature|sig|credentials?|api[-_]?key|access[-_]?key(?:[-_]?id)?)"
_NAME = rf"(?:[A-Za-z0-9_-]*{_OPEN}|(?:[A-Za-z0-9_-]*[-_])?{_APART})"
"""``sslpassword`` and ``PGPASSWORD`` count, ``tokenizer`` and ``max_tokens`` do not."""

_PORT = r"\d+(?:[^\w@%!$.-]|$)"
_USER_INFO = re.compile(rf"(?<=://)(?:[^/\s'\"]*@|[^/\s:'\"@]*:(?!{_PORT})\S*@)")
"""The second form: a password with a slash or a quote in it, as keys of object stores have."""
_ASSIGNED = re.compile(rf"(?i)(?<![A-Za-z0-9])({_NAME}\s*=\s*['\"]?)[^\s&'\";,]+")
_QUOTED = re.compile(rf"(?i)(['\"]{_NAME}['\"]\s*:\s*)(?:'[^']*'|\"[^\"]*\")")
_OPTION = re.compile(rf"(?i)(--{_NAME}\s+)(?!--)\S+")
_HEADER = re.compile(r"(?i)(authorization['\"]?\s*[:=]\s*['\"]?(?:bearer|basic)\s+)[^\s'\"]+")
_NAMED = re.compile(rf"(?i){_NAME}")


def without_credentials(value: Any) -> Any:
    """Return a copy in which no text holds a credential; lists and dicts are walked.

    Left out: ``user:password@`` of a URI, what is assigned to a name that ends in password, token,
    secret and the like (``?sig=...``, ``AWS_SECRET_ACCESS_KEY=...``), the value after an option of
    such a name (``--api-key ...``), the text under such a key of a dict, and an HTTP
    authorization.

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
