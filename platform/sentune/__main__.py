"""``python -m sentune``: the command line; ``python -m sentune train`` needs no Ray."""

from __future__ import annotations

from sentune.cli import main

if __name__ == "__main__":
    main()
