"""The command line of a job, made from the fields of its options."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic.fields import FieldInfo
from rich.console import Console

from sentune.errors import SentuneError
from sentune.job.options import StudyOptions, option_name, parse

if TYPE_CHECKING:
    from sentune.search.space import SearchSpace

REPEATED = ("dev", "test", "set", "vectors")
FLAGS = ("dry_run", "search_readouts")
CORPUS, COUNT, URI = "FORMAT:PATH", "N", "URI"
METAVARS = {
    "corpus": CORPUS,
    "dev": CORPUS,
    "test": CORPUS,
    "encoder": "NAME|PATH",
    "references": CORPUS,
    "vectors": "glove:FILE|fasttext:FILE",
    "frequencies": "FILE|wordfreq:LANG",
    "limit": COUNT,
    "trials": COUNT,
    "concurrent": "N|auto",
    "max_examples": COUNT,
    "finalists": "K",
    "seeds": "S",
    "workers": "N|MIN-MAX",
    "gpus_per_worker": "X",
    "launcher": "auto|inline|train",
    "sampler": "NAME",
    "objective": "METRIC",
    "study": "NAME",
    "storage": URI,
    "optuna": "URL",
    "tracking": URI,
    "share_mb": COUNT,
    "validate_every": COUNT,
    "eta": COUNT,
    "seed": COUNT,
    "set": "KEY=VALUE",
}


def run(space: SearchSpace, defaults: StudyOptions) -> None:
    """Runs a job from the command line: parses, checks, tunes, reports.

    Exit codes: 0 the study is complete, 2 a wrong value or an impossible plan, 1 the study
    failed, 130 interrupted (the same command resumes).
    """
    typer.run(_command(space, defaults))


def _command(space: SearchSpace, defaults: StudyOptions) -> Callable[..., None]:
    def main(**given: Any) -> None:
        errors = Console(stderr=True)
        try:
            options = parse({k: v for k, v in given.items() if v is not None and v != []}, defaults)
            from sentune.job.flow import tune  # slow imports wait until the options are right

            tune(options, space)
        except SentuneError as error:
            errors.print(f"error: {error}", style="red", markup=False, highlight=False)
            sys.exit(2)
        except KeyboardInterrupt:
            errors.print("interrupted; the same command resumes the study", markup=False)
            sys.exit(130)

    main.__doc__ = f"Tune {space.method} and leave one model with an error bar on its number."
    parameters = [
        _parameter(name, field, defaults) for name, field in type(defaults).model_fields.items()
    ]
    main.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    main.__annotations__ = {p.name: p.annotation for p in parameters}
    return main


def _parameter(name: str, field: FieldInfo, defaults: StudyOptions) -> inspect.Parameter:
    """Values travel as text: ``parse`` alone decides what is allowed, so errors read alike."""
    value = getattr(defaults, name)
    shown = _shown(name, value)
    written: Any = bool if name in FLAGS else list[str] if name in REPEATED else str
    option = typer.Option(
        option_name(name),
        help=f"{field.description}{f' (default: {shown})' if shown else ''}",
        show_default=False,
        metavar=METAVARS.get(name),
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[written | None, option],
    )


def _shown(name: str, value: object) -> str:
    if name == "concurrent" and value is None:
        return "auto"
    if value is None or value == () or value is False:
        return ""
    if isinstance(value, tuple):
        return " ".join(str(item) for item in value)
    return f"{value:,}" if isinstance(value, int) else str(value)
