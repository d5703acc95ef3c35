"""Keeps credentials out of whatever is logged, tagged or uploaded."""

from __future__ import annotations

import re
from typing import Any

_WORDS = (
    r"(?:password|passwd|pwd|secret|token|signature|sig|credentials?|api[-_]?key|access[-_]?key)"
)
_NAME = rf"(?:[A-Za-z0-9_-]*[-_])?{_WORDS}"

_USER_INFO = re.compile(r"(?<=://)[^/\s'\"]*@")
_ASSIGNED = re.compile(rf"(?i)(?<![A-Za-z0-9])({_NAME}\s*=\s*['\"]?)[^\s&'\";,]+")
_OPTION = re.compile(rf"(?i)(--{_NAME}\s+)(?!--)\S+")


def without_credentials(value: Any) -> Any:
    """A copy in which no text holds a credential; lists and dicts are walked.

    Goes: ``user:password@`` of a URI, what is assigned to a name that ends in password, token,
    secret and the like (``?sig=...``, ``AWS_SECRET_ACCESS_KEY=...``), and the value after an
    option of such a name (``--api-key ...``).

    >>> without_credentials("postgresql://ann:pw@db/optuna?token=x")
    'postgresql://db/optuna?token=***'
    """
    if isinstance(value, str):
        text = _USER_INFO.sub("", value)
        text = _ASSIGNED.sub(r"\1***", text)
        return _OPTION.sub(r"\1***", text)
    if isinstance(value, dict):
        return {without_credentials(key): without_credentials(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_credentials(item) for item in value]
    return value
