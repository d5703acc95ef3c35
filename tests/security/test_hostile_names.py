"""Names of studies that are paths, commands or tricks of writing."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sentune.cli import app
from sentune.corpora.formats import FORMATS
from sentune.corpora.formats.spec import parse as parse_spec
from sentune.errors import InvalidValue
from sentune.job.options import JobOptions, parse
from sentune.tracking.client import legal

NAMES = (
    "../../x", "/etc/passwd", "a/b", "a\\b", "..", ".", "", " ", "a b", "a\x00b", "a\nb", "a\n",
    "x" * 65, "x" * 10_000, "é", "ａ", "a\u202eb", "a\u200bb", "-rf", "--help", ".hidden", "a;b",
    "$(touch x)", "`id`", "a|b", "a%2fb", "~", "~root", "*", "CON:", "\x1b[31m", "a'b", "file:x",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("option", ["study", "fork"])
def test_a_job_refuses_it(option: str, name: str) -> None:
    with pytest.raises(InvalidValue, match=f"--{option}.*no path"):
        parse({option: name}, JobOptions())


@pytest.mark.parametrize("name", ["a", "snli-2", "A.b_c", "x" * 64, "0..1"])
def test_a_name_is_a_name(name: str) -> None:
    assert parse({"study": name, "fork": name}, JobOptions()).study == name


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command", [("show",), ("resume",), ("gc",)])
def test_the_command_line_refuses_it(command: tuple[str, ...], name: str, tmp_path: Path) -> None:
    (tmp_path / "studies").mkdir()
    (tmp_path / "x").mkdir()
    (tmp_path / "x/study.json").write_text("{}")
    arguments = ["study", *command, "--storage", str(tmp_path / "studies"), "--", name]
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, InvalidValue), done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["studies", "x"]


@pytest.mark.parametrize("name", ["../../x", "..", "a\x00b", "x" * 65])
def test_a_fork_refuses_it_before_anything_else(name: str, tmp_path: Path) -> None:
    arguments = ["study", "fork", "--storage", str(tmp_path), "--", "old", name]
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, InvalidValue)
    assert done.exception.field == "NEW"


@pytest.mark.parametrize("name", ["../../x", "/etc/x", "a\x00b", "..", "", "x" * 1000, "a\nb"])
def test_names_are_made_legal_for_the_tracker(name: str) -> None:
    found = legal(name)
    assert found
    assert not found.startswith(("/", "."))
    assert ".." not in found.split("/")
    assert len(found) <= 250
    assert found.isprintable()


@pytest.mark.parametrize(
    "spec",
    [
        "os:/etc/passwd", "snli", "snli:", "../snli:x", "snli:x?rows", "snli:x?__class__=1",
        "snli:x?votes=" + "9" * 5000, "snli:x?votes=²", "snli:x?rows=../..", "\x00:x",
    ],
)  # fmt: skip
def test_a_corpus_option_is_checked(spec: str) -> None:
    from sentune.corpora.formats import read
    from sentune.corpora.schema import Kind

    with pytest.raises(InvalidValue, match="cannot be used"):
        read(spec, Kind.LABELLED_PAIRS)
    assert parse_spec("text:x", FORMATS).path == "x"
