"""Puts this project first on the import path, before installed packages.

It is the first import of every job (``import _path``). Python puts a script's folder first on the
path, so this file is found with ``python jobs/x.py`` and ``ray job submit``. Then the driver
imports the submitted ``sentune`` and ``search_spaces``. Workers get the same code by
``sentune.code.runtime_env``.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_FOLDERS = [str(ROOT / "platform"), str(ROOT)]
sys.path[:] = _FOLDERS + [entry for entry in sys.path if entry not in _FOLDERS]
