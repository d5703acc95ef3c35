"""Methods and formats that an installed package brings by its entry points."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from search_spaces import find_job
from sentune import user_code
from sentune.corpora.formats import FORMATS, read
from sentune.corpora.schema import Kind
from sentune.errors import InvalidValue
from sentune.methods import find

MODULE = """
import sentune
from sentune.methods.simcse import Simcse

TITLE = "Fresh"

class Fresh(Simcse):
    title = "Fresh"

@sentune.format("brought", kind="sentences")
def brought(path):
    for text in open(path, encoding="utf-8").read().split(";"):
        yield {"text": text}
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module on the path, with an entry point of each group; its folder."""
    (tmp_path / "brought_along.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    points = {
        "sentune.methods": [
            EntryPoint("no-class", "brought_along:TITLE", "sentune.methods"),
            EntryPoint("fresh", "brought_along:Fresh", "sentune.methods"),
        ],
        "sentune.formats": [EntryPoint("brought", "brought_along:brought", "sentune.formats")],
    }
    monkeypatch.setattr(user_code.metadata, "entry_points", lambda group: points.get(group, []))
    yield tmp_path
    sys.modules.pop("brought_along", None)
    FORMATS.pop("brought", None)


def test_a_method_is_found_by_its_entry_point(package: Path) -> None:
    assert find("fresh").title == "Fresh"
    assert find_job("fresh").space.method == "fresh"
    with pytest.raises(InvalidValue, match=r"simcse.*fresh, or MODULE:CLASS"):
        find("stale")


def test_an_entry_point_that_is_no_class_is_refused(package: Path) -> None:
    with pytest.raises(InvalidValue, match=r"derived from sentune\.SentenceMethod"):
        find("no-class")


def test_a_format_is_read_by_its_entry_point(package: Path) -> None:
    (package / "text.txt").write_text("One cat.;Two dogs.", encoding="utf-8")
    corpus = read(f"brought:{package / 'text.txt'}", Kind.SENTENCES)
    assert corpus.table["text"].to_pylist() == ["One cat.", "Two dogs."]
