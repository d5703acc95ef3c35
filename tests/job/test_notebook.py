"""A job's output in a notebook's cell: plain lines, and one output that is replaced."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
from rich.table import Table

from sentune.job.notebook import NotebookCell, output
from sentune.terminal import print_line


class Place:
    """What IPython gives for an output that can be replaced; notes what it showed."""

    def __init__(self) -> None:
        self.shown: list[dict[str, Any]] = []

    def display(self, data: dict[str, Any], **_: Any) -> Place:
        self.shown.append(data)
        return self

    update = display


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    pytest.importorskip("IPython", reason="the extra 'notebook' is not installed")
    place = Place()
    monkeypatch.setattr("IPython.display.display", place.display)
    return place


def drawn(text: str) -> Table:
    table = Table("trial")
    table.add_row(text)
    return table


def test_a_table_is_replaced_where_it_changes(place: Place) -> None:
    seen = iter(["first <b>", "second\x1b[31m"])
    with NotebookCell().following(lambda: drawn(next(seen))):
        pass
    first, second = place.shown
    assert "first &lt;b&gt;" in first["text/html"]
    assert "second" in second["text/plain"]
    assert "\x1b" not in second["text/plain"] + second["text/html"]


def test_what_stays_is_shown_once(place: Place) -> None:
    with NotebookCell().following(lambda: drawn("same")):
        pass
    assert len(place.shown) == 1


def test_lines_are_plain(capsys: pytest.CaptureFixture[str]) -> None:
    print_line(NotebookCell(), "study   gumbel (gumbel) in studies", "red")
    assert capsys.readouterr().out == "study   gumbel (gumbel) in studies\n"


class ZMQInteractiveShell:
    """The name of a notebook's shell is what rich knows it by."""


def test_a_kernel_has_a_cell_and_a_log_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not isinstance(output(), NotebookCell)
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    assert isinstance(output(), NotebookCell)
