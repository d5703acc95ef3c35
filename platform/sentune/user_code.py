"""User-defined classes: how they are addressed, sent to workers and imported.

The address of a class is ``MODULE:CLASS``. Workers receive the module's file, or its whole package.
A class of a notebook or script, which other processes cannot import, is first written to a file
``user_HASH.py``, together with the definitions that it uses.
"""

from __future__ import annotations

import ast
import dis
import hashlib
import linecache
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module, metadata
from inspect import unwrap
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from sentune.errors import InvalidValue
from sentune.io.atomic import write_document
from sentune.io.cached_file import node_cache

MODULES = "SENTUNE_MODULES"
"""Environment variable: comma-separated modules whose classes model folders may load."""

_SHIPPED: dict[str, Path] = {}
_MAIN = "__main__"
_READS = ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS")


def address_of(kind: type[Any]) -> str:
    """Return the address of a class, with which ``find`` imports it in processes with its file.

    Raises:
        InvalidValue: the class is defined inside a function, or uses a value that cannot be written
            to a file.
    """
    if "." in kind.__qualname__:
        fix = "define it at the top of a module or of a notebook's cell"
        raise InvalidValue("class", kind.__qualname__, fix)
    module = _written(kind) if kind.__module__ == _MAIN else kind.__module__
    return f"{module}:{kind.__name__}"


def find(address: str, option: str = "class") -> type[Any]:
    """Import the class of an address, and register its module to be sent to workers.

    Raises:
        InvalidValue: it cannot be imported, or is not a class; the message names ``option``.
    """
    module, _, name = address.partition(":")
    folder = str(_folder())
    if not all(module.split(".")):
        raise InvalidValue(option, address, "write MODULE:CLASS")
    if module.startswith("user_") and folder not in sys.path:
        sys.path.append(folder)
    try:
        imported = import_module(module)
    except (ImportError, AttributeError) as error:
        fix = _copy(module) or "put its file on PYTHONPATH"
        why = f"it cannot be imported here ({error}); {fix}"
        raise InvalidValue(option, address, why) from None
    if (kind := getattr(imported, name, None)) is None:
        fix = _copy(module) or f"check the name; module {module} has no {name}"
        raise InvalidValue(option, address, fix)
    if not isinstance(kind, type):
        raise InvalidValue(option, address, f"it is a {type(kind).__name__}, not a class")
    _ship(module)
    return kind


def named(group: str, name: str, option: str, known: Iterable[str]) -> Any:
    """Return the object of an entry point, or the class of an address.

    ``group`` is ``methods``, ``tasks``, ``formats`` or ``samplers``.

    Raises:
        InvalidValue: there is no such entry point or class; the message names ``option`` and lists
            the ``known`` built-in names and the installed ones.
    """
    plugins = installed(group)
    if name in plugins:
        return plugins[name].load()
    if ":" in name:
        return find(name, option)
    listed = ", ".join([*known, *plugins])
    raise InvalidValue(option, name, f"choose one of {listed}, or MODULE:CLASS")


def check_named(address: str) -> None:
    """Check that the user allows a model folder to import the module of an address.

    Importing a module runs its code. Allowed are modules that are already imported, those listed in
    ``SENTUNE_MODULES``, and those written from this user's own notebooks.

    Raises:
        InvalidValue: the module is not allowed.
    """
    module = address.partition(":")[0]
    own = module.startswith("user_") and (_folder() / f"{module}.py").is_file()
    if not (own or module in sys.modules or module in os.environ.get(MODULES, "").split(",")):
        fix = _copy(module) or f"import {module} first, or set {MODULES}={module}"
        raise InvalidValue("method", address, f"it is a user-defined class; {fix}")


def installed(group: str) -> Mapping[str, metadata.EntryPoint]:
    """Return name -> entry point of a group (``methods``, ``tasks``, ``formats``, ``samplers``)."""
    return {point.name: point for point in metadata.entry_points(group=f"sentune.{group}")}


def shipped() -> dict[str, Path]:
    """Return module -> file, or folder of its package, for the user's code that workers need."""
    return dict(_SHIPPED)


def _ship(module: str) -> None:
    """Register a module's file, or its package's folder, unless it is an installed package."""
    top = sys.modules[module.partition(".")[0]]
    if (file := getattr(sys.modules[module], "__file__", None)) is None:  # built into Python
        return
    path = Path(file).resolve()
    folders = (Path(folder).resolve() for folder in getattr(top, "__path__", ()))
    path = next((folder for folder in folders if path.is_relative_to(folder)), path)
    if not any(path.is_relative_to(place) for place in sysconfig.get_paths().values()):
        _SHIPPED[module] = path


def _folder() -> Path:
    """Return the folder of files written from notebooks, in the user's cache."""
    return node_cache() / "code"


def _copy(module: str) -> str:
    """Return how to copy the file of a notebook's class to this machine; empty for others."""
    if not module.startswith("user_"):
        return ""
    file = f"{module}.py"
    return f"copy {file} from ~/.cache/sentune/code where the notebook ran to {_folder() / file}"


def _written(kind: type[Any]) -> str:
    """Write a class of ``__main__`` to a file; return the name of its module."""
    scope = vars(sys.modules[_MAIN])
    parts: dict[str, str] = {}
    _collect(kind.__name__, scope, parts)
    future = ["from __future__ import annotations\n"] if "annotations" in scope else []
    text = "\n".join(
        [f'"""{kind.__name__}, as a notebook or program had it."""\n', *future, *parts.values()]
    )
    name = f"user_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    if not (_folder() / f"{name}.py").exists():
        write_document(str(_folder()), f"{name}.py", text + "\n")
    return name


def _collect(name: str, scope: Mapping[str, Any], parts: dict[str, str]) -> None:
    """Add the source of a name to ``parts``, after the sources of the names that it uses.

    ``scope`` has the values of ``__main__``; ``parts`` is in the order of definition.
    """
    value = scope[name]
    own = getattr(value, "__module__", None) == _MAIN and getattr(value, "__name__", "") == name
    if isinstance(value, ModuleType):
        parts[name] = f"import {value.__name__} as {name}"
    elif own:
        node, text = _source(name, value)
        parts[name] = ""  # prevents endless recursion if it uses itself
        read = {*_globals(compile(text, name, "exec", dont_inherit=True))}
        known = scope.keys() & read - {"__name__"}  # every module has its own
        for used in ast.walk(node):
            if isinstance(used, ast.Name) and used.id in known and used.id not in parts:
                _collect(used.id, scope, parts)
            elif isinstance(used, ast.Attribute) and (submodule := _submodule(used, scope)):
                parts[submodule] = f"import {submodule} as _loaded"
        del parts[name]
        parts[name] = f"\n\n{text}"
    elif (source := _imported(name, value)) is not None:
        parts[name] = source
    else:
        try:
            same = ast.literal_eval(repr(value)) == value
        except (ValueError, SyntaxError):
            same = False
        if not same:
            fix = "define it in a module, or inside the class"
            raise InvalidValue(f"{name}, which the class uses,", repr(value)[:80], fix)
        parts[name] = f"{name} = {value!r}"


def _submodule(node: ast.Attribute, scope: Mapping[str, Any]) -> str:
    """Return the name of the module that ``xml.etree`` or the like refers to; empty for others."""
    first, _, rest = ast.unparse(node).partition(".")
    name = f"{scope[first].__name__}.{rest}" if isinstance(scope.get(first), ModuleType) else ""
    return name if name in sys.modules else ""


def _imported(name: str, value: Any) -> str | None:
    """Return the statement that imports a value; None if it cannot be imported."""
    module = getattr(value, "__module__", None)
    if module in (None, _MAIN):
        return None
    for there in (name, getattr(value, "__qualname__", ""), getattr(value, "_name", "")):
        if there and getattr(sys.modules.get(module), str(there), None) is value:
            return f"from {module} import {there} as {name}"
    return None


def _globals(code: CodeType) -> Iterator[str]:
    """Yield the global names that code reads, including code inside functions."""
    bound = set()
    for step in dis.get_instructions(code):
        if step.opname == "STORE_NAME":
            bound.add(step.argval)
        elif step.opname in _READS and step.argval not in bound:
            yield step.argval
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals(inner)


def _source(name: str, value: Any) -> tuple[ast.AST, str]:
    """Return the syntax tree and text of a class or function defined in a script or notebook.

    Raises:
        InvalidValue: its source is not available.
    """
    for text in _texts(value):
        if f" {name}" not in text:
            continue
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue
        for node in reversed(tree.body):
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                lines = text.splitlines()[first - 1 : node.end_lineno]
                return node, "\n".join(lines)
    raise InvalidValue("class", name, "its source is not available; define it in a module")


def _texts(value: Any) -> Iterator[str]:
    """Yield texts that may define a value: the script, or the cells of a notebook.

    The cell with the value's code comes first, then all cells, newest first, because a class
    without functions has no reference to its cell. A cell that is run again is the newest in
    ``In``, but keeps its position in ``linecache``.
    """
    program = getattr(sys.modules[_MAIN], "__file__", None)
    linecache.checkcache(program)
    if program:
        yield "".join(linecache.getlines(program))
        return
    for part in (value, *vars(value).values()):
        code = unwrap(part)
        if isinstance(code, FunctionType) and code.__qualname__.startswith(value.__name__):
            yield "".join(linecache.getlines(code.__code__.co_filename))
    yield from reversed(vars(sys.modules[_MAIN]).get("In", []))
    for file in reversed(list(linecache.cache)):
        yield "".join(linecache.getlines(file))
