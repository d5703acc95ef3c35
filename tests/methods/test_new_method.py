"""A new method is a file in ``sentune/methods``: no list of names has to be touched."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.interpreter import run_python

PLATFORM = Path(__file__).resolve().parents[2] / "platform"
METHOD = '''
from typing import ClassVar

from sentune.methods.simcse import Simcse


class Fresh(Simcse):
    """Of a new paper."""

    name: ClassVar[str] = "fresh"


class Helper(Fresh):
    """Without a name of its own it is no method."""
'''
PROGRAM = """
from sentune.methods import CLOSED_FORM, REGISTRY, TRAINED, find
assert find("fresh").__name__ == "Fresh"
assert find("gumbel").__name__ == "Gumbelcse"
print(sorted(REGISTRY), sorted(TRAINED.keys() - REGISTRY), sorted(CLOSED_FORM))
"""


def test_a_file_is_all_that_a_method_takes(tmp_path: Path) -> None:
    shutil.copytree(PLATFORM, tmp_path / "platform")
    (tmp_path / "platform/sentune/methods/fresh.py").write_text(METHOD)
    printed = run_python(PROGRAM, platform=tmp_path / "platform")
    sentences = ["fresh", "gauss", "gumbel", "infersent", "sbert-softmax"]
    sentences += ["simcse", "simcse-pairs", "simcse-unsupervised"]
    assert printed == f"{sentences} {['intersent', 'invertible']} {['laes', 'sif']}"
