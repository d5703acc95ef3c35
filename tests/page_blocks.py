"""The blocks of the README and the documentation, and the commands that bash makes of them.

A page's shell blocks are run by bash as a reader runs them, one after the other, except that no
command does anything: each is a stub that notes its arguments, after all of bash's own quoting,
variables and line continuations.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", *sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("docs/*.md"))]

OURS = ("sentune", "python", ".venv/bin/python", ".venv/bin/sentune", "make")
FOREIGN = {
    "aws": "an account with Amazon",
    "curl": "a server that runs",
    "docker": "a registry of images",
    "git": "the repository's address",
    "kubectl": "a Kubernetes cluster",
    "mlflow": "a model in the registry; tests/embedder serves one",
    "openssl": "nothing: it makes a password for the commands after it",
    ".venv/bin/pip": "the network",
    "ray": "a cluster of machines, or a head that runs; what it submits is checked",
}
"""Commands of others -> what they need that is not here: bash parses them, no more is checked."""

REAL = ("mkdir", "sed")
"""They only write below the temporary home folder."""

_OPENING = re.compile(
    r"^(\w+=|(?:\w+=\S+ )*(?:sentune|python|make|ray|git|mlflow|\.venv/bin/\w+)(?: |$))", re.M
)
_STUB = r"""#!/bin/bash
IFS=$'\x1f'; all=("$BLOCK" "$0" "$@"); printf '%s\x1e' "${all[*]}" >> "$CALLS"
"""


@dataclass(frozen=True)
class Block:
    """A block of a page.

    Attributes:
        page: below the repository.
        line: of the page, of its first line, from 1 on.
        language: ``python``, ``bash`` or another fence's; empty for an indented block.
        text: without fence and indentation.
    """

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def shell(self) -> bool:
        """Whether it is typed into a shell; an indented block is where it begins as a command."""
        return self.language == "bash" or (not self.language and bool(_OPENING.match(self.text)))


@dataclass(frozen=True)
class Call:
    """A command as bash would call it."""

    place: str
    words: tuple[str, ...]


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page in their order, fenced and indented."""
    found, lines = [], (ROOT / page).read_text(encoding="utf-8").splitlines()
    number = 0
    while number < len(lines):
        first, line = number, lines[number]
        number += 1
        if line.startswith("```"):
            number = lines.index("```", number)
            inside = lines[first + 1 : number]
            found.append(Block(page, first + 2, line[3:], "\n".join(inside)))
            number += 1
        elif line.startswith("    ") and first and not lines[first - 1]:
            while number < len(lines) and (lines[number].startswith("    ") or not lines[number]):
                number += 1
            inside = [part[4:] for part in lines[first:number]]
            found.append(Block(page, first + 1, "", "\n".join(inside).rstrip()))
    return found


def spans(page: str) -> Iterator[tuple[str, str]]:
    """Yield (place, text) of each ``code`` within a page's text, outside of its blocks."""
    fenced = False
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
        fenced ^= line.startswith("```")
        if not fenced and not line.startswith("    "):
            for text in re.findall(r"(?<!`)`([^`]+)`(?!`)", line):
                yield f"{page}:{number}", text


def calls(page: str, folder: Path) -> list[Call]:
    """Return the commands of a page's shell blocks, in the order in which bash comes to them.

    Args:
        folder: empty; what the blocks write is left there.

    Raises:
        AssertionError: bash cannot parse a block, a variable is not set, or a command is neither
            ours nor among the known ones; has what bash says.
    """
    shell = [block for block in blocks(page) if block.shell]
    commands, noted = folder / "bin", folder / "calls"
    commands.mkdir()
    (folder / ".venv").mkdir()
    (folder / ".venv/bin").symlink_to(commands)
    shutil.copytree(ROOT / "cluster", folder / "cluster")
    (folder / "stub").write_text(_STUB)
    (folder / "stub").chmod(0o755)
    for name in {Path(name).name for name in (*OURS, *FOREIGN)}:
        (commands / name).symlink_to("../stub")
    for name in REAL:
        (commands / name).symlink_to(str(shutil.which(name)))
    noted.touch()
    script = "\n".join(
        [
            "set -eu",
            "cd() { :; }",
            *(f"BLOCK={block.place}\n{block.text}" for block in shell),
            "wait",
        ]
    )
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
    own = {"PATH": str(commands), "HOME": str(folder), "USER": "me", "CALLS": str(noted)}
    env = {**kept, **own, "D": "data", "M": "encoders", "BLOCK": ""}
    bash = str(shutil.which("bash"))
    command = [bash, "--norc", "-c", f"export BLOCK\n{script}"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{page}: {done.stderr}"
    records = noted.read_text(encoding="utf-8").split("\x1e")[:-1]
    found = []
    for record in records:
        place, name, *words = record.split("\x1f")
        found.append(Call(place, (Path(name).name, *words)))
    return found
