"""Puts the project that holds this file first on the import path, before anything installed.

A job's first import (``import _path``): Python puts a script's own folder first on the path, so
this file is found however the script is started, by ``python jobs/x.py`` or by ``ray job submit``,
and from here on ``sentune`` and ``search_spaces`` are the submitted ones on the driver. The
workers get the same code from ``sentune.code.runtime_env``.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_FOLDERS = [str(ROOT / "platform"), str(ROOT)]
sys.path[:] = _FOLDERS + [entry for entry in sys.path if entry not in _FOLDERS]
