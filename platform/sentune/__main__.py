"""``python -m sentune``: the command line."""

from __future__ import annotations

from sentune.cli import main

if __name__ == "__main__":
    main()
