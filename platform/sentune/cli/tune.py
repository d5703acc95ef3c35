"""``sentune tune METHOD``: the job of each method, with the options of ``jobs/tune_METHOD.py``."""

from __future__ import annotations

from typing import Any

from sentune.cli.options import Group, LazyGroup, look_here
from sentune.job.command import command
from sentune.job.run import tune as run_job
from sentune.user_code import installed


class Methods(LazyGroup):
    """One command per method, and one for any class ``MODULE:CLASS``."""

    def list_commands(self, ctx: Any) -> list[str]:
        from search_spaces import definitions

        return [*definitions(), *installed("methods")]

    def make(self, name: str) -> Any:
        from search_spaces import find_job

        if ":" not in name and name not in self.list_commands(None):
            return None
        look_here()
        return command(find_job(name), run_job)


app = Group(cls=Methods)


@app.callback()
def tune() -> None:
    """Tune a method and export the best model, with error bars.

    For your own method give MODULE:CLASS; its attribute "space" is the search space.
    """
