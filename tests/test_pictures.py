"""The pictures of README and documentation: each is there, named and small, and loads nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.page_blocks import PAGES, ROOT

PICTURE = re.compile(r"!\[(?P<words>[^\]]*)\]\((?P<path>[^)]+)\)")
NAMED = {
    (page, found["words"], (ROOT / page).parent / found["path"])
    for page in PAGES
    for found in PICTURE.finditer((ROOT / page).read_text(encoding="utf-8"))
}
IMAGES = sorted(path for path in (ROOT / "docs/images").rglob("*") if path.is_file())
NAMESPACES = {
    "http://www.w3.org/2000/svg",
    "http://www.w3.org/1999/xlink",
    "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd",  # the document type, which no browser loads
}
MOST_KB, MOST_KB_EACH = 1024, 100


def test_every_picture_that_a_page_names_is_there_and_has_words() -> None:
    assert len(NAMED) > 20
    assert [(page, path) for page, words, path in NAMED if not (words and path.is_file())] == []


def test_every_picture_is_named_by_a_page() -> None:
    named = {path.resolve() for _, _, path in NAMED}
    assert [path.name for path in IMAGES if path not in named] == []


def test_pictures_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in IMAGES}
    assert sum(sizes.values()) < MOST_KB * 1024
    assert [name for name, size in sizes.items() if size > MOST_KB_EACH * 1024] == []


@pytest.mark.parametrize("path", [p for p in IMAGES if p.suffix == ".svg"], ids=lambda p: p.stem)
def test_a_drawing_loads_nothing_and_names_no_folder_of_a_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert {*re.findall(r"https?://[^\s\"'<>)]+", text)} <= NAMESPACES
    assert "@font-face" not in text
    assert not re.search(r"(?<![\w.])/(home|root|tmp|Users|usr|work)/", text)
