"""The command line of a job, made from the fields of its options, and its exit codes."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic.fields import FieldInfo

from sentune.errors import SentuneError
from sentune.job.options import StudyOptions, option_name, parse
from sentune.study import LAUNCHERS
from sentune.terminal import Terminal, print_line

if TYPE_CHECKING:
    from sentune.records import StudySummary
    from sentune.study.space.space import SearchSpace

FAILED, WRONG, STOPPED, INTERRUPTED = 1, 2, 3, 130
CORPORA = ("corpus", "dev", "test", "encoder", "decoder", "vectors", "frequencies")
OFF_AT_ZERO = ("population", "checkpoint_every")
METAVARS = {
    field: metavar
    for metavar, fields in {
        "FORMAT:PATH": "corpus dev test references",
        "N": "limit trials max_concurrent max_examples max_trials stop_after_no_gain keep "
        "population generations checkpoint_every share_mb validate_every eta seed",
        "X": "priority gpus_per_worker failed_share",
        "H": "max_hours max_gpu_hours",
        "URI": "storage tracking",
        "NAME": "sampler fork scheduler study",
        "NAME|PATH": "encoder decoder",
        "glove:FILE|fasttext:FILE": "vectors",
        "FILE|wordfreq:LANG": "frequencies",
        "N|auto": "concurrent",
        "K": "finalists",
        "S": "seeds",
        "N|MIN-MAX": "workers",
        "|".join(LAUNCHERS): "launcher",
        "METRIC": "objective",
        "METRIC<=X": "constraint",
        "KEY=VALUE,...": "try_first",
        "STUDY": "warm_start",
        "URL": "optuna",
        "KEY=VALUE": "set",
    }.items()
    for field in fields.split()
}


@dataclass
class Ended(Exception):
    """A study that did not come to its end; ``code`` is the job's exit code."""

    code: int
    line: str
    style: str = ""


def check_ending(summary: StudySummary) -> None:
    """Raise ``Ended`` for a study that is not complete, with what to do about it."""
    why = summary.reason
    if summary.state == "failed":
        raise Ended(FAILED, f"failed: {why}", "red")
    if summary.state == "stopped":
        raise Ended(STOPPED, f"stopped: {why}; the same command goes on where it may")
    if summary.state == "interrupted":
        raise Ended(INTERRUPTED, f"{why or 'interrupted'}; the same command resumes the study")


def command(
    space: SearchSpace, defaults: StudyOptions, quick: Mapping[str, Any] | None
) -> Callable[..., None]:
    """The command of a job, an option for each field of ``defaults``."""

    def main(**given: Any) -> None:
        errors = Terminal(stderr=True)
        try:
            usual = {**defaults.model_dump(), **(quick or {})} if given.pop("quick", None) else {}
            base = type(defaults).model_validate(usual) if usual else defaults
            options = parse({k: v for k, v in given.items() if v is not None and v != []}, base)
            from sentune.job.run import tune

            tune(options, space)
        except Ended as end:
            print_line(errors, end.line, end.style)
            sys.exit(end.code)
        except SentuneError as error:
            print_line(errors, f"error: {error}", "red")
            sys.exit(WRONG)
        except KeyboardInterrupt:
            print_line(errors, "interrupted; the same command resumes the study")
            sys.exit(INTERRUPTED)

    main.__doc__ = f"Tune {space.method} and leave one model with an error bar on its number."
    fields = type(defaults).model_fields
    order = sorted(fields, key=lambda name: name not in CORPORA)  # what it reads comes first
    parameters = [_parameter(name, fields[name], getattr(defaults, name)) for name in order]
    if quick is not None:
        sets = ", ".join(f"{option_name(name)} {_shown(name, v)}" for name, v in quick.items())
        flag = FieldInfo(annotation=bool, description=f"a first look within minutes: {sets}")
        parameters.append(_parameter("quick", flag, False))
    main.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    main.__annotations__ = {p.name: p.annotation for p in parameters}
    return main


def _parameter(name: str, field: FieldInfo, value: object) -> inspect.Parameter:
    """Return an option whose value stays text: ``parse`` alone decides what is allowed."""
    shown = _shown(name, value)
    repeated = typing.get_origin(field.annotation) is tuple
    written: Any = bool if field.annotation is bool else list[str] if repeated else str
    option = typer.Option(
        option_name(name),
        help=f"{field.description}{f' (default: {shown})' if shown else ''}",
        show_default=False,
        metavar=METAVARS.get(name),
    )
    kind, annotation = inspect.Parameter.KEYWORD_ONLY, Annotated[written | None, option]
    return inspect.Parameter(name, kind, default=None, annotation=annotation)


def _shown(name: str, value: object) -> str:
    """Return a default as the help shows it; empty for what is off or stands in the help."""
    if name == "concurrent" and value is None:
        return "auto"
    if name in ("optuna", "tracking") or value is None or value == () or value is False:
        return ""
    if name in OFF_AT_ZERO and value == 0:
        return ""
    if isinstance(value, tuple):
        return " ".join(str(item) for item in value)
    return f"{value:,}" if isinstance(value, int) else str(value)
