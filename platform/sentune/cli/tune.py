"""``sentune tune METHOD``: the jobs, one a method, with the options of ``jobs/tune_METHOD.py``."""

from __future__ import annotations

from collections.abc import Callable, Collection

from sentune.cli.options import Group, lazy_group
from sentune.job.command import command


def _methods() -> Collection[str]:
    from search_spaces import definitions

    return definitions()


def _tune(method: str) -> Callable[..., None]:
    from search_spaces import find

    return command(find(method))


app = Group(cls=lazy_group(_methods, _tune))


@app.callback()
def tune() -> None:
    """Tune a method and leave one model with an error bar on its number."""
