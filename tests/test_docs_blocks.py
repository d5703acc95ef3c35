"""Every block of the README and the documentation: Python runs, commands meet their own parser.

The Python of docs/extending.md runs in tests/test_extending.py; what each ``--set`` of any text
plans is in tests/job/test_set_option.py.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from ray.cluster_utils import Cluster

import sentune
from sentune.cli import app
from sentune.cli.cluster_plan import options_of, read_job
from sentune.job.families import make_job
from sentune.job.options import JobOptions
from sentune.training.local import LocalRun
from tests.page_blocks import FOREIGN, PAGES, ROOT, Block, blocks, calls, spans
from tests.reader_commands import NOT_RUN, made_small, not_run
from tests.reader_files import write_named

EXTENDING = "docs/extending.md"
ALL = [block for page in PAGES for block in blocks(page)]
TEXT = {
    "your machine --SSH-->": "a drawing",
    "[   1:25] trial 5 at": "a line of output",
    "waiting for the Optuna database": "a line of output",
    '[project.entry-points."sentune.methods"]': "a part of a pyproject.toml",
}
"""Beginning of an indented block that nobody types -> what it is."""

PLACEHOLDER = re.compile(r"[A-Z][A-Z0-9_]*(\.\.\.)?")
"""What stands for a value of the reader's: STUDY, ITS_MODEL, STUDY..."""


@cache
def targets() -> set[str]:
    """The targets of the Makefile."""
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))


def leaf(words: Sequence[str]) -> tuple[Any, list[str]]:
    """The command of ``sentune`` that these words name, and what comes after its name."""
    command, rest = typer.main.get_command(app), [*words]
    while hasattr(command, "get_command") and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        found = command.get_command(
            command.make_context("sentune", [], resilient_parsing=True), name
        )
        if found is None and PLACEHOLDER.fullmatch(name):  # sentune tune METHOD
            found = command.get_command(None, "gumbel")
        assert found is not None, f"sentune has no command {name}"
        command = found
    return command, rest


def check(words: Sequence[str]) -> None:
    """Check a whole command: its parser takes it, a job is planned, a file is there."""
    name, *rest = (word for word in words if word != "...")
    if name == "python" and rest[:2] == ["-m", "sentune"]:
        name, rest = "sentune", rest[2:]
    if name == "sentune":
        command, given = leaf(rest)
        given = [word for word in given if word != "--help"]  # it is shown and ends
        context = command.make_context(command.name, given)
        if context.args:  # sentune cluster plan JOB, with the job's options
            plan_job(context.params["script"], context.args)
    elif name == "python" and rest[0].startswith("jobs/"):
        plan_job(Path(rest[0]), rest[1:])
    elif name == "python":
        file = rest[1].replace(".", "/") + ".py" if rest[0] == "-m" else rest[0]
        named = [word for word in rest if word.startswith("tests/")] if "pytest" in rest else [file]
        assert [path for path in named if not (ROOT / path).exists()] == []
    elif name == "make":
        assert {word for word in rest if "=" not in word} <= targets()
    elif name == "ray" and "--" in rest:
        check(rest[rest.index("--") + 1 :])
    elif name == "ray" and rest[0] == "exec" and "ray job submit" in rest[2]:
        check(shlex.split(rest[2]))
    else:
        assert name in {Path(other).name for other in FOREIGN}


def plan_job(script: Path, arguments: Sequence[str]) -> None:
    job = read_job(ROOT / script)
    make_job(options_of(job, arguments), job.space)


def check_part(text: str) -> None:
    """Check a command that a sentence names, where arguments may be left out."""
    words = shlex.split(text.split(" | ")[0])
    name, rest = words[0].removeprefix(".venv/bin/"), words[1:]
    if name == "python" and rest[:2] == ["-m", "sentune"]:
        name, rest = "sentune", rest[2:]
    if name.startswith(("tune_", "jobs/tune_")):
        command = leaf(["tune", Path(name).stem.removeprefix("tune_").replace("_", "-")])[0]
    elif name == "sentune":
        command, rest = leaf(rest)
    else:
        check([name, *rest])
        return
    known = {option for parameter in command.params for option in parameter.opts}
    options = [word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)]
    assert set(options) <= known | {"--help"}


def test_the_blocks_are_found() -> None:
    kinds = {block.language for block in ALL}
    assert kinds == {"", "bash", "python", "text"}
    assert sum(block.shell for block in ALL) > 50
    assert {block.page for block in ALL} >= {"README.md", "docs/cluster.md", "docs/results.md"}


def test_each_indented_block_is_a_command_or_python_or_listed() -> None:
    other = [block for block in ALL if not block.language and not block.shell]
    begun = {start for start in TEXT for block in other if block.text.startswith(start)}
    assert begun == set(TEXT)
    for block in other:
        if not block.text.startswith(tuple(TEXT)):
            ast.parse(block.text)


@pytest.mark.parametrize("page", [page for page in PAGES if any(b.shell for b in blocks(page))])
def test_commands_are_taken_by_their_own_parser(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page == EXTENDING:
        (tmp_path / "modules").mkdir()
        write_modules(tmp_path / "modules")
        monkeypatch.syspath_prepend(tmp_path / "modules")
    found = calls(page, tmp_path)
    assert {call.place for call in found} <= {b.place for b in blocks(page) if b.shell}
    wrong = []
    for call in found:
        try:
            check(call.words)
        except (AssertionError, sentune.errors.SentuneError, typer.TyperException) as error:
            wrong.append(f"{call.place}: {shlex.join(call.words)}: {error}")
    assert not wrong, "\n".join(wrong)


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    for words, told in (
        (["sentune", "study", "shew", "NAME"], "no command shew"),
        (["sentune", "report", "NAME", "--html", "a"], "--html"),
        (["python", "jobs/tune_gumbel.py", "--trails", "3"], "--trails"),
        (["python", "jobs/tune_gumbel.py", "--trials", "none"], "--trials"),
        (["python", "jobs/tune_gumbel.py", "--set", "dimension=none"], "--set dimension"),
        (["ray", "job", "submit", "--", "sentune", "shew"], "no command shew"),
        (["python", "-m", "benchmarks.nothing"], "benchmarks/nothing.py"),
        (["make", "tea"], "tea"),
    ):
        with pytest.raises(
            (AssertionError, sentune.errors.SentuneError, typer.TyperException),
            match=re.escape(told),
        ):
            check(words)
    with pytest.raises(AssertionError):
        check_part("sentune evaluate --tasks")


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_the_text_name_what_there_is(page: str) -> None:
    opening = re.compile(r"(sentune|python|make|\.venv/bin/\w+|(jobs/)?tune_\w+\.py) ")
    wrong = []
    for place, text in spans(page):
        if opening.match(text):
            try:
                check_part(text)
            except (AssertionError, typer.TyperException) as error:
                wrong.append(f"{place}: {text}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("block", [b for b in ALL if b.language == "python"], ids=lambda b: b.place)
def test_python_compiles(block: Block) -> None:
    compile(block.text, block.place, "exec")


def write_modules(folder: Path) -> None:
    """Write the modules of one's own that the commands of docs/extending.md name."""
    python = [block.text for block in blocks(EXTENDING) if block.language == "python"]
    for name, text in (
        ("caps", "class CapCSE"),
        ("tasks", "class Match"),
        ("mutation", "class Mutation"),
    ):
        (block,) = (block for block in python if text in block)
        before = "import sentune\nfrom torch import Tensor\n" if name == "tasks" else ""
        (folder / f"{name}.py").write_text(before + block.partition("\nprint(")[0] + "\n")


def named_calls() -> list[tuple[str, ast.Call]]:
    """Calls of ``sentune.NAME(...)`` that stand in a text or in an indented block."""
    written = [(block.place, block.text) for block in ALL if not block.language]
    written += [span for page in PAGES for span in spans(page)]
    found = []
    for place, text in written:
        if text.startswith("sentune.") and "(" in text:
            tree = ast.parse(text)
            found += [(place, node) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return found


def test_calls_in_the_text_have_arguments_that_there_are() -> None:
    fields: dict[str, Iterable[str]] = {
        "tune": JobOptions.model_fields,
        "fit": LocalRun.model_fields,
    }
    calls = named_calls()
    assert len(calls) >= 3
    for place, call in calls:
        name = ast.unparse(call.func).removeprefix("sentune.")
        parameters = inspect.signature(getattr(sentune, name)).parameters
        known = {*parameters, *fields.get(name, ())}
        assert {keyword.arg for keyword in call.keywords} <= known, place


PREPARE = """
from pathlib import Path
import sentune
from sentune.embedder.index import SentenceIndex
small = {"batch_size": 32, "pooling": "mean"}
sentune.tune("gumbel", trials=1, max_examples=256, limit=256, finalists=0, storage="studies",
             dev="builtin:nli?split=dev&size=40", test="builtin:nli?split=test&size=40",
             set={**small, "dimension": 8})
sentune.fit("intersent", max_examples=64, limit=64, out="studies/intersent-quick", set=small,
            dev="builtin:operations?split=dev&size=8")
Path("sentences.txt").write_text("a dog runs\\nit rains\\n")
model = sentune.Embedder.load("studies/gumbel/model")
SentenceIndex.build(model, Path("sentences.txt"), Path("corpus.index"))
"""
"""Makes what the pages take for granted: the tutorial's study, its index, InterSent's quick one."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working folder of a reader who has run the commands of the pages."""
    made = tmp_path_factory.mktemp("reader")
    env = {name: value for name, value in os.environ.items() if not name.startswith("SENTUNE_")}
    command = [sys.executable, "-c", PREPARE]
    done = subprocess.run(command, cwd=made, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return made


@pytest.mark.cluster
@pytest.mark.parametrize(
    "page", sorted({b.page for b in ALL if b.language == "python"} - {EXTENDING})
)
def test_the_python_of_a_page_runs_as_one_program(page: str, folder: Path) -> None:
    program = "\n".join(block.text for block in blocks(page) if block.language == "python")
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


RECORD = "docs/results.md"
"""Measurements of hours; their commands are parsed and planned, as all are."""

RUN = """
import json, runpy, sys
from sentune.cli import main
from sentune.study.planning.connect import connected
sys.path.insert(0, "jobs")
with connected():
    for place, words in json.load(sys.stdin):
        print(f"== {place}:", *words, flush=True)
        sys.argv, code = words[words[0] == "python" :], 0
        try:
            main() if words[0] == "sentune" else runpy.run_path(words[1], run_name="__main__")
        except SystemExit as ended:
            code = ended.code or 0
        sys.stderr.write(f"== {code}: {place}: {' '.join(words)}\\n")
"""
"""Runs commands one after the other in one process and one Ray job: to import the libraries and to
join the cluster anew for each of them would take minutes."""


@pytest.fixture(scope="module")
def ray_here() -> Iterator[str]:
    """The address of a cluster for the jobs of all pages."""
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False}
    )
    yield cluster.address
    cluster.shutdown()


@pytest.mark.cluster
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page != RECORD and any(b.shell for b in blocks(page))]
)
def test_the_commands_of_a_page_run(page: str, folder: Path, ray_here: str, tmp_path: Path) -> None:
    here, stubs = tmp_path / "reader", tmp_path / "stubs"
    shutil.copytree(folder, here)
    stubs.mkdir()
    for name in ("jobs", "search_spaces", "cluster.yaml"):
        (here / name).symlink_to(ROOT / name)
    if page == EXTENDING:
        write_modules(here)
    found = [call for call in calls(page, stubs) if not_run(call) is None]
    small = [(call.place, made_small(call, number)) for number, call in enumerate(found)]
    for _, words in small:
        write_named(shlex.join(words), here)
    (here / "FOLDER").mkdir(exist_ok=True)
    if not small:
        pytest.skip("no command of this page can be run here")
    env = {name: value for name, value in os.environ.items() if not name.startswith("SENTUNE_")}
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps(small),
        cwd=here,
        env={**env, "RAY_ADDRESS": ray_here},
        capture_output=True,
        text=True,
        check=False,
    )
    ended = re.findall(r"^== (\S+): (.*)", done.stderr, re.M)
    assert len(ended) == len(small), done.stdout[-3000:] + done.stderr[-3000:]
    wrong = [line for code, line in ended if code != "0"]
    assert not wrong, "\n".join(wrong) + done.stdout[-9000:] + done.stderr[-5000:]


def test_each_reason_not_to_run_a_command_is_needed(tmp_path: Path) -> None:
    found = set()
    for page in PAGES:
        (tmp_path / page).mkdir(parents=True)
        found |= {not_run(call) for call in calls(page, tmp_path / page)}
    assert found == {None, *NOT_RUN}
