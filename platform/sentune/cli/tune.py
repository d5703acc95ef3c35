"""``sentune tune METHOD``: the jobs, one a method, with the options of ``jobs/tune_METHOD.py``."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from sentune.cli.options import Group
from sentune.job.command import command


class MethodGroup(TyperGroup):
    """Makes the command of a method from its search space and its options."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the methods."""
        from search_spaces import definitions

        return [*definitions()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command that tunes a method; None where there is none of that name."""
        from search_spaces import definitions

        job = definitions().get(cmd_name)
        if job is None:
            return None
        made = Group()
        made.command(cmd_name)(command(job.space, job.defaults, job.quick))
        found = typer.main.get_command(made)
        found.name = cmd_name
        return found


app = Group(cls=MethodGroup)


@app.callback()
def tune() -> None:
    """Tune a method and leave one model with an error bar on its number."""
