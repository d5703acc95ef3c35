"""``sentune tune METHOD``: the jobs, one a method, with the options of ``jobs/tune_METHOD.py``."""

from __future__ import annotations

from collections.abc import Callable, Collection

from sentune.cli.options import Group, lazy_group, look_here
from sentune.job.command import command
from sentune.user_code import installed


def _methods() -> Collection[str]:
    from search_spaces import definitions

    return [*definitions(), *installed("methods")]


def _tune(method: str) -> Callable[..., None]:
    from sentune.job.definition import find_job

    look_here()
    return command(find_job(method))


app = Group(cls=lazy_group(_methods, _tune, unlisted=lambda name: ":" in name))


@app.callback()
def tune() -> None:
    """Tune a method and leave one model with an error bar on its number.

    A method of one's own is named by its address, MODULE:CLASS; its attribute "space" is searched.
    """
