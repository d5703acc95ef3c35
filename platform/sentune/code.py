"""Which code runs: its fingerprint, how workers get it, and proof that all run the same.

The code that was submitted must win over an installed one. On the driver the job's own path does
that (``jobs/_path.py``); on the workers a path alone does not, so the packages travel with the job
as Ray ``py_modules``, which come first on a worker's path (with the path alone, the driver ran the
new code and the workers the installed one).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sentune.errors import SentuneError

PACKAGE = Path(__file__).parent
"""What runs on workers. A search space stays on the driver: a trial gets its values."""

_DECIDES = (
    *("corpora", "encoders", "geometry", "methods"),
    *("readouts", "tasks", "training", "launchers"),
)
"""Parts of the package between a corpus and a metric."""

_FIX = (
    "start Ray with ray.init(runtime_env=sentune.code.runtime_env()) "
    "and let a job's first import be `import _path`"
)


class CodeMismatch(SentuneError):
    """Driver and worker run different code."""


@dataclass(frozen=True)
class Code:
    """The code of packages as this process finds it.

    Attributes:
        fingerprint: hash over the names and contents of all ``.py`` files.
        folders: where the packages lie.
        files: ``package/path.py`` -> hash of its content.
    """

    fingerprint: str
    folders: tuple[str, ...]
    files: Mapping[str, str]


def read_code(folders: Sequence[Path]) -> Code:
    """Read the code of package folders; where a folder lies does not change the fingerprint."""
    files = {
        f"{folder.name}/{path.relative_to(folder).as_posix()}": _digest(path.read_bytes())
        for folder in folders
        for path in folder.rglob("*.py")
    }
    listing = "\n".join(f"{name} {files[name]}" for name in sorted(files))
    return Code(_digest(listing.encode()), tuple(map(str, folders)), files)


def result_fingerprint() -> str:
    """Return the fingerprint of the code that a trial's figures depend on.

    A study is not continued across a change of it; how a job shows or tracks it may change.
    """
    return read_code([PACKAGE / name for name in _DECIDES]).fingerprint


@cache
def loaded_code() -> Code:
    """Return the code this process runs, read once: files edited later were not imported."""
    return read_code([PACKAGE])


def code_fingerprint() -> str:
    """Return the fingerprint of the code this process runs."""
    return loaded_code().fingerprint


def runtime_env() -> dict[str, Any]:
    """Return what ``ray.init(runtime_env=...)`` needs so that workers run the driver's code.

    Bytecode stays out: it is written while the job starts and would change the package's hash.
    """
    return {"py_modules": [str(PACKAGE)], "excludes": ["**/__pycache__", "*.pyc"]}


def require_code(expected: str) -> None:
    """Check, in a trial's actor, that it runs the driver's code; costs a few ms, once a process.

    Args:
        expected: the driver's ``code_fingerprint()``.

    Raises:
        CodeMismatch: the fingerprints differ.
    """
    here = loaded_code()
    if here.fingerprint != expected:
        raise CodeMismatch(
            f"the driver runs code {expected}, this worker {here.fingerprint} from "
            f"{', '.join(here.folders)}; {_FIX}"
        )


def assert_same_code(*, timeout_s: float = 120.0) -> None:
    """Compare the code of this driver with that of a worker process on every node alive.

    Takes no CPU of the cluster (the tasks ask for none), so it neither waits for running trials
    nor makes the cluster grow. Nodes that join later are checked by ``require_code``.

    Args:
        timeout_s: seconds to wait for the answers; a worker's first start ships the packages.

    Raises:
        CodeMismatch: a worker's code differs, with both fingerprints, folders and the files.
        ray.exceptions.GetTimeoutError: a node did not answer in time.
    """
    import ray  # the fingerprint above is also wanted where only torch is installed
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    # Defined here, so that it travels by value: an older installed version has no such function.
    def worker_code() -> Code | str:
        try:
            from sentune.code import loaded_code
        except ImportError as error:
            return repr(error)
        return loaded_code()

    task = ray.remote(num_cpus=0)(worker_code)
    asked = {
        task.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote(): node
        for node in ray.nodes()
        if node["Alive"]
    }
    ray.wait(list(asked), num_returns=len(asked), timeout=timeout_s)
    for answer, node in asked.items():
        try:
            found = ray.get(answer, timeout=0)
        except ray.exceptions.RayError:
            if any(one["Alive"] for one in ray.nodes() if one["NodeID"] == node["NodeID"]):
                raise
            continue  # it went while it was asked: no trial will run there
        compare(loaded_code(), found, where=node["NodeManagerAddress"])


def compare(driver: Code, worker: Code | str, *, where: str) -> None:
    """Raise ``CodeMismatch`` where a worker's code (or its import error) is not the driver's."""
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
