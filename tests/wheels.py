"""The package as a user installs it: a wheel in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def installed(folder: Path) -> Path:
    """Build the wheel and install it below a folder; return that environment's Python.

    The environment has the libraries of this one, but not this checkout.
    """
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run([*pip, *build], check=True, cwd=folder)
    venv.create(folder / "env", with_pip=False)
    python = folder / "env/bin/python"
    (found,) = folder.glob("sentune-*.whl")
    install = ["--python", str(python), "install", "--no-deps", str(found)]
    subprocess.run([*pip, *install], check=True, cwd=folder)
    (packages,) = (folder / "env/lib").glob("python3*/site-packages")
    libraries = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "libraries.pth").write_text(libraries + "\n")
    return python
