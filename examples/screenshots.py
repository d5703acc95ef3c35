"""Makes the pictures of the README and of docs/gallery.md from three small studies.

    make screenshots                                  about eight minutes on two cores
    PYTHONPATH=. python examples/screenshots.py DIR   from the studies in DIR, which are made there
                                                      where they are missing

Needs Chromium, in which each picture is drawn as a reader's browser draws it.
"""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
import tempfile
import termios
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from PIL import Image
from plotly.offline import get_plotlyjs
from rich.console import CONSOLE_SVG_FORMAT, Console
from rich.text import Text

import sentune
from sentune.corpora.formats.open import read
from sentune.corpora.schema import Kind
from tests.chromium import Chromium, chromium

IMAGES = Path(__file__).parents[1] / "docs/images"
ROWS, COLUMNS = 32, 104
"""Of the terminal."""
DESK = 1200
"""Pixels of the page's width."""

STUDIES = {
    "gumbel": "sentune tune gumbel",
    "gauss": "sentune tune gauss --objective direction/accuracy --objective sts/spearman"
    " --dev builtin:nli?split=dev --dev builtin:scenes?split=dev&size=300"
    " --test builtin:nli?split=test --trials 10 --finalists 2",
    "readouts": "sentune tune gumbel --study readouts --objective ambiguous-rte/macro_f1"
    " --dev builtin:nli?split=dev --dev snli:ambiguous.jsonl?votes=2 --trials 1 --finalists 0"
    " --max-examples 18000 --set batch_size=64 --set learning_rate=1e-3 --set pooling=mean"
    " --set references=30,100,300,600",
}
COMPARED = "sentune compare gumbel gauss"

REPORTED = {
    "gumbel": "history curves parallel survival cost precision_recall scores_0"
    " lengths_0 embedding_map region_0 losses dev_and_test",
    "gauss": "front importance finalists region_0 similarities_2",
    "readouts": "sweep0_0 sweep0_1",
}
"""Study -> names of figures of its report."""
IN_NOTEBOOKS = {
    "gumbel": "history curves parallel importance",
    "gauss": "seeds",
    "readouts": "readouts",
}
"""Study -> functions of its ``figures``."""

VOTES = {"entailment": [5, 0, 0], "neutral": [2, 3, 0], "contradiction": [0, 1, 4]}
"""Label of a builtin pair -> annotators for entailment, neutral and contradiction."""

REDRAWN = re.compile(r"\r\x1b\[2K(?:\x1b\[1A\x1b\[2K)*")
"""What a display writes before it draws its next screen over the last one."""
LIVE = "\x1b[?25l"
"""Hides the cursor, before the first screen."""
SVG = re.compile(r"@font-face {{.*?}}|<!--.*?-->", re.DOTALL).sub("", CONSOLE_SVG_FORMAT)
"""Without the fonts that rich has on a server."""

DRAWN = """(async name => {
  const chart = document.querySelector("#" + name + ".js-plotly-plot");
  if (!chart) return new XMLSerializer().serializeToString(document.querySelector("svg." + name));
  const {width, height} = chart.getBoundingClientRect();
  const address = await Plotly.toImage(chart, {format: "svg", width, height});
  return decodeURIComponent(address.slice(address.indexOf(",") + 1));
})"""
"""Gives the SVG of a figure of matplotlib's or plotly's by its name."""


def screens(command: str, folder: Path) -> list[str]:
    """Return the screens of a command on a terminal, one drawn over the other.

    Raises:
        SystemExit: the command has failed.
    """
    program, *arguments = shlex.split(command)
    terminal, its_side = pty.openpty()
    termios.tcsetwinsize(its_side, (ROWS, COLUMNS))
    path = Path(sys.executable).with_name(program)
    environment = {**os.environ, "TERM": "xterm-256color"}
    run = subprocess.Popen([path, *arguments], cwd=folder, env=environment, stdout=its_side)
    os.close(its_side)
    written = b"".join(_parts(terminal)).decode()
    if run.wait():
        raise SystemExit(f"{command}: exit code {run.returncode}\n{written}")
    return REDRAWN.split(written.replace("\r\n", "\n"))


def _parts(terminal: int) -> Iterator[bytes]:
    with suppress(OSError):  # the command has ended
        while part := os.read(terminal, 1 << 16):
            yield part


def at_work(drawn: list[str]) -> str | None:
    """Return the last screen with two trials at work and most that have ended, if there is one."""
    searching = [one for one in drawn if one.count("training") > 1 and "seed" not in one]
    return max(reversed(searching), key=lambda one: one.count("\n"), default=None)


def write_screen(name: str, command: str, screen: str) -> None:
    """Write a terminal's screen as SVG."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi(screen.strip("\n")))
    write(f"{name}.svg", console.export_svg(title=command, code_format=SVG, unique_id=name))


def write_ambiguous(file: Path) -> None:
    """Write builtin pairs with the labels of five annotators, in SNLI's format."""
    rows = read("builtin:nli?split=dev&size=300", Kind.LABELLED_PAIRS).table.to_pylist()
    with file.open("w", encoding="utf-8") as lines:
        for row in rows:
            votes = zip(VOTES, VOTES[row["label"]], strict=True)
            labels = [label for label, count in votes for _ in range(count)]
            pair = {"sentence1": row["premise"], "sentence2": row["hypothesis"]}
            labelled = {**pair, "gold_label": row["label"], "annotator_labels": labels}
            lines.write(json.dumps(labelled) + "\n")


def write_figures(page: Path, names: str, prefix: str, browser: Chromium) -> None:
    """Write figures of a page as SVG on white paper."""
    browser.open(page, DESK)
    for name in names.split():
        svg = str(browser.run(f"{DRAWN}({json.dumps(name)})"))
        paper = r'\g<0><rect width="100%" height="100%" fill="#fff"/>'
        write(f"{prefix}{name}.svg", re.sub(r"<svg[^>]*>", paper, svg, count=1))


def notebook(study: str, names: str, folder: Path) -> Path:
    """Return a page of what the functions of a study's ``figures`` draw, each under its name."""
    figures, divs = sentune.load_study(study, storage=str(folder / "studies")).figures, []
    for name in names.split():
        drawn = getattr(figures, name)()
        figure = next(iter(drawn.values())) if isinstance(drawn, dict) else drawn
        figure.update_layout(width=760, height=420)
        divs.append(figure.to_html(div_id=name, full_html=False, include_plotlyjs=False))
    page = folder / f"{study}.html"
    page.write_text(f"<script>{get_plotlyjs()}</script>{''.join(divs)}", encoding="utf-8")
    return page


def write_report(page: Path, browser: Chromium) -> None:
    """Write a report down to the end of its figures of the search, in 256 colours."""
    browser.open(page, DESK)
    end = browser.run('document.querySelector("#search").getBoundingClientRect().bottom')
    file = browser.picture(IMAGES / "report.png", height=round(end) + 24)
    Image.open(file).convert("RGB").quantize(256).save(file, optimize=True)


def write(name: str, svg: str) -> None:
    """Write a picture."""
    (IMAGES / name).write_text(svg + "\n", encoding="utf-8")


def main(given: str = "") -> None:
    """Run the studies, and write every picture."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, chromium() as browser:
        folder = Path(given or temporary).resolve()
        write_ambiguous(folder / "ambiguous.jsonl")
        for study, command in STUDIES.items():
            drawn = screens(command, folder)
            if study == "gumbel" and (live := at_work(drawn)):
                write_screen("live", command, drawn[0].partition(LIVE)[0] + live)
        write_screen("compare", COMPARED, screens(COMPARED, folder)[-1])
        for study, names in REPORTED.items():
            page = folder / "studies" / study / "report.html"
            write_figures(page, names, f"{study}-", browser)
        for study, names in IN_NOTEBOOKS.items():
            page = notebook(study, names, folder)
            write_figures(page, names, f"notebook-{study}-", browser)
        write_report(folder / "studies/gumbel/report.html", browser)
    for picture in sorted(IMAGES.iterdir()):
        sys.stdout.write(f"{picture.name}: {picture.stat().st_size / 1024:,.0f} KB\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
