"""Fingerprints of code, what a method's results depend on, what workers get and an upload holds."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import ray

from search_spaces.gumbel import SPACE
from sentune import code
from sentune.errors import InvalidValue
from sentune.formatting import differences
from sentune.job.families import make_job
from sentune.job.options import JobOptions
from tests.third_party_internals import create_package, upload_working_dir_if_needed

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "one" / "sentune"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.py").write_text("A = 1\n")
    (folder / "sub/b.py").write_text("B = 2\n")
    return folder


def test_fingerprint_does_not_depend_on_where_the_code_lies(package: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(package, tmp_path / "two" / "sentune"))
    assert code.read_code(copy).fingerprint == code.read_code(package).fingerprint


@pytest.mark.parametrize(
    "change",
    [
        lambda p: (p / "a.py").write_text("A = 2\n"),
        lambda p: (p / "c.py").write_text(""),
        lambda p: (p / "sub/b.py").unlink(),
        lambda p: (p / "a.py").rename(p / "aa.py"),
    ],
    ids=["edited", "added", "removed", "renamed"],
)
def test_fingerprint_changes_with_the_code(package: Path, change: Callable[[Path], Any]) -> None:
    before = code.read_code(package).fingerprint
    change(package)
    assert code.read_code(package).fingerprint != before


def test_bytecode_does_not_count(package: Path) -> None:
    before = code.read_code(package).fingerprint
    (package / "__pycache__").mkdir()
    (package / "__pycache__/a.cpython-311.pyc").write_bytes(b"x")
    assert code.read_code(package).fingerprint == before


def test_the_loaded_package_is_the_one_that_is_fingerprinted() -> None:
    here = Path(code.__file__).parent
    spec = importlib.util.find_spec("sentune")
    assert spec is not None
    assert spec.submodule_search_locations == [str(code.PACKAGE)]
    assert "sentune/code.py" in code.loaded_code().files
    assert code.runtime_env()["py_modules"][0] == str(here)


def test_a_difference_names_both_sides_and_the_files(package: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(package, tmp_path / "old" / "sentune"))
    (other / "sub/b.py").write_text("B = 1\n")
    driver, worker = code.read_code(package), code.read_code(other)
    with pytest.raises(code.CodeMismatch) as error:
        code.compare(driver, worker, where="10.0.0.7")
    said = str(error.value)
    for part in (driver.fingerprint, worker.fingerprint, str(package), str(other), "10.0.0.7"):
        assert part in said
    assert "sentune/sub/b.py" in said
    assert "sentune/a.py" not in said


@pytest.fixture(scope="module")
def gumbel() -> list[str]:
    """The modules of a job of GumbelCSE."""
    return list(make_job(JobOptions(), SPACE).modules())


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    kept = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(code.PACKAGE, tmp_path / "copy" / "sentune", ignore=kept))


UNRELATED = (
    "methods/sif.py",
    "methods/__init__.py",
    "training/recipes/intersent.py",
    "training/recipes/__init__.py",
    "encoders/decoders.py",
    "corpora/formats/nli.py",
    "corpora/formats/registry.py",
    "job/run.py",
    "study/study.py",
    "io/folders.py",
)
RELATED = (
    "methods/gumbelcse.py",
    "methods/base.py",
    "geometry/boxes.py",
    "geometry/contrastive.py",
    "encoders/transformer.py",
    "readouts/threshold.py",
    "tasks/direction.py",
    "training/loop.py",
    "training/recipes/base.py",
    "training/recipes/sentences.py",
    "corpora/batches.py",
    "corpora/stream.py",
    "launchers/run_trial.py",
)


def test_what_a_method_does_not_use_is_not_in_its_code(copied: Path, gumbel: list[str]) -> None:
    before = code.result_code(gumbel)
    assert code.result_code(gumbel, copied) == before, "wherever the package lies"
    (copied / "methods/fresh.py").write_text("from sentune.methods.simcse import Simcse\n")
    for name in UNRELATED:
        with (copied / name).open("a") as file:
            file.write("CHANGED = True\n")
    assert code.result_code(gumbel, copied) == before


def test_a_changed_line_on_the_way_from_corpus_to_metric_is_named(
    copied: Path, gumbel: list[str]
) -> None:
    before = code.result_code(gumbel)
    for name in RELATED:
        with (copied / name).open("a") as file:
            file.write("CHANGED = True\n")
    after = code.result_code(gumbel, copied)
    assert {name for name in before if after[name] != before[name]} == {
        f"sentune/{name}" for name in RELATED
    }
    one = {**before, "sentune/geometry/boxes.py": after["sentune/geometry/boxes.py"]}
    (line,) = differences({"code": before}, {"code": one})
    assert line == "code: another sentune/geometry/boxes.py"


def test_many_changed_files_are_counted() -> None:
    was = {f"{name}.py": "1" for name in "abcdefg"}
    (line,) = differences({"code": was}, {"code": {**was, "h.py": "1"}})
    assert line == "code: another h.py"
    (line,) = differences({"code": was}, {"code": dict.fromkeys(was, "2")})
    assert line == "code: another a.py, b.py, c.py, d.py, e.py and 2 more files"


def loaded(name: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Import a module from a folder for one test."""
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setitem(sys.modules, name, importlib.import_module(name))


def test_a_module_of_a_user_counts_with_what_lies_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_method.py").write_text(
        "import torch\nfrom sentune.methods.simcse import Simcse\n"
        "def loss():\n    from own_helper import f\n    return f()\n"
    )
    (tmp_path / "own_helper.py").write_text("def f(): return 1\n")
    (tmp_path / "own_other.py").write_text("def g(): return 1\n")
    loaded("own_method", monkeypatch, tmp_path)
    found = code.result_code(["own_method"])
    assert {name for name in found if "/" not in name} == {"own_method.py", "own_helper.py"}
    assert {"sentune/methods/simcse.py", "sentune/geometry/points.py"} <= found.keys()
    assert not {name for name in found if name.startswith("torch")}
    (tmp_path / "own_helper.py").write_text("def f(): return 2\n")
    again = code.result_code(["own_method"])
    assert list(differences({"code": found}, {"code": again})) == ["code: another own_helper.py"]


def test_a_module_in_a_package_of_a_user_counts_with_what_it_imports_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "own_package"
    (package / "deep").mkdir(parents=True)
    (package / "__init__.py").write_text("from own_package.b import shown as named, hidden\n")
    (package / "b.py").write_text("shown = hidden = 1\n")
    (package / "c.py").write_text("")
    (package / "deep/__init__.py").write_text("")
    (package / "deep/method.py").write_text("from .. import named\nfrom .part import x\n")
    (package / "deep/part.py").write_text("x = 1\n")
    loaded("own_package.deep.method", monkeypatch, tmp_path)
    found = code.result_code(["own_package.deep.method"])
    files = ("b.py", "deep/method.py", "deep/part.py")
    assert list(found) == [f"own_package/{name}" for name in files]


def test_a_method_without_a_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typed_by_hand", ModuleType("typed_by_hand"))
    with pytest.raises(InvalidValue, match=r"typed_by_hand.*module with a file"):
        code.result_code(["typed_by_hand"])


def test_a_worker_too_old_to_answer_is_refused(package: Path) -> None:
    with pytest.raises(code.CodeMismatch, match="cannot import"):
        code.compare(code.read_code(package), "ModuleNotFoundError()", where="10.0.0.7")


def test_an_actor_checks_what_it_runs() -> None:
    code.require_code(code.loaded_code().fingerprint)
    with pytest.raises(code.CodeMismatch, match="0123"):
        code.require_code("0123")


@pytest.mark.cluster
@pytest.mark.parametrize("gone", [True, False], ids=["it-has-gone", "it-does-not-answer"])
def test_a_node_that_goes_while_it_is_asked(gone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the autoscaler takes one back, or a spot machine is lost: it is no reason to refuse."""
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        there = ray.nodes()
        lost = {**there[0], "NodeID": "ab" * 28}
        answers = iter([[*there, lost], there if gone else [*there, lost]])
        monkeypatch.setattr(ray, "nodes", lambda: next(answers))
        if gone:
            code.assert_same_code()
        else:
            with pytest.raises(ray.exceptions.RayError):
                code.assert_same_code()
    finally:
        ray.shutdown()


def test_bootstrap_puts_the_project_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/somewhere", str(ROOT), "/installed"])
    spec = importlib.util.spec_from_file_location("_path_of_test", ROOT / "jobs/_path.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert sys.path == [str(ROOT / "platform"), str(ROOT), "/somewhere", "/installed"]
    assert module.ROOT == ROOT


def test_the_standard_library_keeps_its_platform_module() -> None:
    found = subprocess.run(
        [sys.executable, "-c", "import _path, platform, ray; print(platform.system())"],
        cwd=ROOT / "jobs",
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip()


def _uploaded(project: Path, out: Path) -> list[zipfile.ZipInfo]:
    """What Ray sends for ``--working-dir``."""

    def pack(folder: str, excludes: list[str], is_file: bool = False) -> None:
        create_package(folder, out, include_gitignore=True, excludes=excludes)

    upload_working_dir_if_needed(
        {"working_dir": str(project)}, include_gitignore=True, upload_fn=pack
    )
    with zipfile.ZipFile(out) as archive:
        return archive.infolist()


@pytest.mark.parametrize("defaults", [None, ""], ids=["ray's excludes", "own excludes alone"])
def test_an_upload_holds_code_and_little_else(
    new_project: Callable[[Path, str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    defaults: str | None,
) -> None:
    if defaults is not None:
        monkeypatch.setenv("RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES", defaults)
    entries = _uploaded(new_project(tmp_path / "project", "upload"), tmp_path / "package.zip")
    names = [entry.filename for entry in entries]
    assert "platform/sentune/code.py" in names
    assert "jobs/_path.py" in names
    assert not [name for name in names if name.startswith((".git/", ".venv/", "data/"))]
    # as large as the package with its papers' tables, and at most 64 KiB of anything else
    sources = [
        file
        for part in ("platform", "jobs", "search_spaces")
        for kind in ("*.py", "*.toml")
        for file in (ROOT / part).rglob(kind)
    ]
    written = sum(source.stat().st_size for source in sources)
    assert sum(entry.file_size for entry in entries) < written + 2**16


def test_an_upload_of_this_project_is_small(tmp_path: Path) -> None:
    entries = _uploaded(ROOT, tmp_path / "package.zip")
    assert sum(entry.file_size for entry in entries) < 5 * 2**20
    assert not [e.filename for e in entries if e.filename.startswith((".git/", ".venv/"))]


@pytest.mark.cluster
def test_a_worker_sees_the_gpus_that_it_was_given_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)  # Ray refuses more GPUs than it names

    def seen() -> str | None:
        return os.environ.get("CUDA_VISIBLE_DEVICES")

    ray.init(
        address="local",
        num_cpus=1,
        num_gpus=2,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env=code.runtime_env(),
    )
    try:
        task = ray.remote(num_cpus=1)(seen)
        assert ray.get(task.remote()) == ""
        assert ray.get(task.options(num_gpus=1).remote()) in ("0", "1")
    finally:
        ray.shutdown()
