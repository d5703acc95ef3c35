"""The running code: its fingerprint, its transfer to workers, and the part that results depend on.

Submitted code must take precedence over an installed package. On the driver ``jobs/_path.py`` puts
it first on the import path. Workers would still import the installed package, so the package is
sent to them as Ray ``py_modules``, which come first on a worker's path.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sentune.errors import InvalidValue, SentuneError
from sentune.lazy_import import collect_rarely
from sentune.user_code import MODULES, shipped

PACKAGE = Path(__file__).parent
"""The package that is sent to workers; ``search_spaces`` is used on the driver only."""

FOLLOWED = ("corpora", "encoders", "geometry", "methods", "readouts", "tasks", "training")
"""Subpackages on which the metrics of a trial may depend."""

REGISTRIES = ("sentune.methods", "sentune.training.recipes", "sentune.corpora.formats.registry")
"""Modules that import all methods, recipes or formats, of which a study uses few."""

HIDE_GPUS = "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"
"""Ray's variable that hides GPUs from workers without one, which is not the default in 2.60."""

ANSWER_SECONDS = 120.0
"""Timeout for the answers of all nodes; at their first start workers receive the packages."""

_FIX = (
    "start Ray with ray.init(runtime_env=sentune.code.runtime_env()) "
    "and let a job's first import be `import _path`"
)


class CodeMismatch(SentuneError):
    """Raised if driver and worker run different code."""


@dataclass(frozen=True)
class Code:
    """The code of a package in this process.

    Attributes:
        fingerprint: hash over ``files``.
        folders: of the package; a tuple for compatibility with older versions on workers.
        files: ``package/path.py`` -> hash of its content.
    """

    fingerprint: str
    folders: tuple[str, ...]
    files: Mapping[str, str]


def read_code(folder: Path) -> Code:
    """Read the code in a package's folder; the fingerprint does not depend on the folder's path."""
    files = {
        f"{folder.name}/{path.relative_to(folder).as_posix()}": _digest(path.read_bytes())
        for path in folder.rglob("*.py")
    }
    listing = "\n".join(f"{name} {files[name]}" for name in sorted(files))
    return Code(_digest(listing.encode()), (str(folder),), files)


def result_code(modules: Iterable[str], package: Path = PACKAGE) -> dict[str, str]:
    """Return file -> digest of the code that metrics depend on: modules and their imports.

    A study is not resumed after this code has changed. Imports are found by parsing, including
    those inside functions. Of a package's ``__init__``, only the imports of the requested names
    count, and of modules in ``REGISTRIES`` none. In this package, imports are followed into the
    subpackages in ``FOLLOWED``, because the others do not affect metrics. In other code, they are
    followed within a module's package, or to modules in the folder of its file.

    Raises:
        InvalidValue: a module has no file.
    """
    closure = _ImportClosure(package)
    for module in modules:
        closure.begin(module)
    return dict(sorted(closure.files.items()))


class _ImportClosure:
    """Collects the files that modules import.

    Attributes:
        files: path, relative to the folder on the import path -> digest.
    """

    def __init__(self, package: Path) -> None:
        self.files: dict[str, str] = {}
        self._package = package.name
        self._folders = {package.name: package.parent}
        self._seen: set[str] = set()

    def begin(self, module: str) -> None:
        """Add a module of any subpackage or of other code, and its imports."""
        top = module.partition(".")[0]
        if top not in self._folders:
            place = getattr(sys.modules.get(module), "__file__", None)
            if place is None:
                raise InvalidValue("method", module, "define its class in a module with a file")
            depth = module.count(".") + (Path(place).name == "__init__.py")
            folder = Path(place).resolve().parents[depth]
            beside = {path.stem for path in folder.glob("*.py")} if not depth else set()
            if str(folder) in sysconfig.get_paths().values():
                beside = set()
            self._folders |= dict.fromkeys({top, *beside} - self._folders.keys(), folder)
        self._add(module)

    def _add(self, module: str) -> None:
        """Add a module's file and follow its imports."""
        file = self._file(module)
        if file is None or module in self._seen or module in REGISTRIES:
            return
        self._seen.add(module)
        content = file.read_bytes()
        folder = self._folders[module.partition(".")[0]]
        self.files[file.relative_to(folder).as_posix()] = _digest(content)
        for source, name, _ in _imports(ast.parse(content), module, file):
            self._follow(source, name)

    def _follow(self, module: str, name: str) -> None:
        """Add the module that defines ``name``; an empty name stands for the module itself."""
        parts = module.split(".")
        if parts[0] == self._package and len(parts) > 1 and parts[1] not in FOLLOWED:
            return
        if name and self._file(f"{module}.{name}") is not None:
            self._follow(f"{module}.{name}", "")
            return
        file = self._file(module)
        if file is not None and name and file.name == "__init__.py":
            for source, given, bound in _imports(ast.parse(file.read_bytes()), module, file):
                if bound == name:
                    self._follow(source, given)
                    return
        self._add(module)

    def _file(self, module: str) -> Path | None:
        """Return a module's file; None if it is outside the folders that are followed."""
        folder = self._folders.get(module.partition(".")[0])
        if folder is None:
            return None
        place = folder.joinpath(*module.split("."))
        found = (place.with_suffix(".py"), place / "__init__.py")
        return next((file for file in found if file.is_file()), None)


def _imports(tree: ast.Module, module: str, file: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (source module, name there, name here) for all imports, also inside functions."""
    package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "", "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            yield from ((source, alias.name, alias.asname or alias.name) for alias in node.names)


@cache
def loaded_code() -> Code:
    """Return the code of this process; it is read once, because later edits are not imported."""
    return read_code(PACKAGE)


def runtime_env() -> dict[str, Any]:
    """Return the ``runtime_env`` of ``ray.init`` with which workers run the driver's code.

    Bytecode is excluded, because it is written while the job starts and would change the package's
    hash. Workers without a GPU see none, so that trials do not share one by accident, and all
    workers collect garbage less often during imports.
    """
    own = shipped()
    places = dict.fromkeys(str(path) for path in own.values())
    for module, path in own.items():
        if path.is_file():  # add the modules that it imports from its folder
            tops = {name.partition("/")[0] for name in result_code([module])} - {PACKAGE.name}
            places |= dict.fromkeys(str(path.parent / top) for top in sorted(tops))
    return {
        "py_modules": [str(PACKAGE), *places],
        "excludes": ["**/__pycache__", "*.pyc"],
        "worker_process_setup_hook": f"{collect_rarely.__module__}.{collect_rarely.__name__}",
        "env_vars": {HIDE_GPUS: "1", **({MODULES: ",".join(own)} if own else {})},
    }


def require_code(expected: str) -> None:
    """Raise ``CodeMismatch`` unless this process runs code with the driver's fingerprint.

    The first call takes a few ms.
    """
    here = loaded_code()
    if here.fingerprint != expected:
        raise CodeMismatch(
            f"the driver runs code {expected}, this worker {here.fingerprint} from "
            f"{', '.join(here.folders)}; {_FIX}"
        )


def assert_same_code() -> None:
    """Check that workers on all nodes run the driver's code.

    The tasks need no CPU, so they neither wait for trials nor start nodes. Nodes that join later
    are checked by ``require_code``.

    Raises:
        CodeMismatch: a worker's code differs; names fingerprints, folders and files.
        ray.exceptions.GetTimeoutError: a node did not answer in time.
    """
    import ray  # here, because the functions above must work without Ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    # Defined here to be pickled by value, because an older installed version lacks this function.
    def worker_code() -> Code | str:
        try:
            from sentune.code import loaded_code
        except ImportError as error:
            return repr(error)
        return loaded_code()

    task = ray.remote(num_cpus=0)(worker_code)
    asked = {}
    for node in (node for node in ray.nodes() if node["Alive"]):
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        asked[task.options(scheduling_strategy=there).remote()] = node
    ray.wait(list(asked), num_returns=len(asked), timeout=ANSWER_SECONDS)
    for answer, node in asked.items():
        try:
            found = ray.get(answer, timeout=0)
        except ray.exceptions.RayError:
            if any(one["Alive"] for one in ray.nodes() if one["NodeID"] == node["NodeID"]):
                raise
            continue  # the node was removed meanwhile
        compare(loaded_code(), found, where=node["NodeManagerAddress"])


def compare(driver: Code, worker: Code | str, *, where: str) -> None:
    """Raise ``CodeMismatch`` unless a worker's code equals the driver's.

    ``worker`` may be the worker's import error. ``where`` is the address of its node.
    """
    if isinstance(worker, str):
        raise CodeMismatch(f"the worker on {where} cannot import sentune.code: {worker}; {_FIX}")
    if worker.fingerprint != driver.fingerprint:
        one, other = driver.files, worker.files
        names = sorted(n for n in one.keys() | other.keys() if one.get(n) != other.get(n))
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise CodeMismatch(
            f"the driver runs code {driver.fingerprint} from {', '.join(driver.folders)}, "
            f"the worker on {where} {worker.fingerprint} from {', '.join(worker.folders)}; "
            f"they differ in {', '.join(names[:5])}{more}; {_FIX}"
        )


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()
