"""The command line of a job, generated from the fields of its options, and its exit codes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_origin

from typer import Option

from sentune.errors import Overtaken, SentuneError, option_name
from sentune.job.options import StudyOptions, parse
from sentune.study import LAUNCHERS
from sentune.study.space.space import SearchSpace
from sentune.terminal import Terminal, print_line

if TYPE_CHECKING:
    from sentune.records import StudySummary

FAILED, WRONG, STOPPED, INTERRUPTED = 1, 2, 3, 130
CORPORA = ("corpus", "dev", "test", "encoder", "decoder", "vectors", "frequencies")
OFF_AT_ZERO = ("population", "checkpoint_every")
METAVARS = {
    "FORMAT:PATH": "corpus references",
    "[TASK=]FORMAT:PATH": "dev test",
    "N": "limit trials max_concurrent max_examples max_trials stop_after_no_gain keep "
    "population generations checkpoint_every share_mb validate_every eta seed",
    "X": "priority gpus_per_worker failed_share",
    "H": "max_hours max_gpu_hours",
    "URI": "storage cache tracking",
    "NAME": "sampler fork scheduler study",
    "NAME|PATH": "encoder decoder",
    "glove:FILE|fasttext:FILE": "vectors",
    "FILE|wordfreq:LANG": "frequencies",
    "N|auto": "concurrent",
    "N|P%": "bad_rows",
    "N|all": "rung_rows",
    "SECONDS|auto": "stall_timeout",
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
    "both=SHARE|balanced": "prior",
    "paper": "profile",
}
"""Placeholder of a value in ``--help`` -> the options that have it."""


@dataclass(frozen=True, kw_only=True)
class JobDefinition:
    """Arguments of ``sentune.job.run.run``, where they are documented."""

    space: SearchSpace
    defaults: StudyOptions
    quick: Mapping[str, Any] | None = None


@dataclass
class Ended(Exception):
    """Raised if a study ends before it is complete.

    Attributes:
        code: the job's exit code.
        line: printed on standard error.
        style: of the line, as ``rich`` names it.
    """

    code: int
    line: str
    style: str = ""


def check_ending(summary: StudySummary) -> None:
    """Raise ``Ended`` unless the study is complete; its line says how to continue."""
    why, again = summary.reason, "the same command resumes the study"
    if summary.state == "failed":
        raise Ended(FAILED, f"failed: {why}", "red")
    if summary.state == "stopped":
        exhausted = (why or "").startswith("--")
        fix = "a higher limit resumes the study" if exhausted else again
        raise Ended(STOPPED, f"stopped: {why}; {fix}")
    if summary.state == "interrupted":
        raise Ended(INTERRUPTED, f"{why or 'interrupted'}; {again}")


def command(
    job: JobDefinition, tune: Callable[[StudyOptions, SearchSpace], None]
) -> Callable[..., None]:
    """Return the command-line function of a job, with one option per field of its options.

    It calls ``tune`` with the parsed options and the space.
    """

    def main(**given: Any) -> None:
        try:
            with exit_codes("interrupted; the same command resumes the study"):
                tune(options_given(given, job), job.space)
        except SentuneError as error:
            print_line(Terminal(stderr=True), f"error: {error}", "red")
            sys.exit(WRONG)

    main.__doc__ = f"Tune {job.space.method} and export the best model, with error bars."
    fields = type(job.defaults).model_fields
    parameters = []
    for name in sorted(fields, key=lambda name: name not in CORPORA):  # inputs come first
        kind, value = fields[name].annotation, _shown(name, getattr(job.defaults, name))
        # Values are passed on as text: ``parse`` checks them, so that errors have one form.
        written: Any = bool if kind is bool else list[str] if get_origin(kind) is tuple else str
        help_text = " ".join((fields[name].description or "").split())
        default = f" (default: {value})" if value else ""
        parameters.append(_parameter(name, written, f"{help_text}{default}"))
    if job.quick is not None:
        listed = ", ".join(f"{option_name(n)} {_shown(n, v)}" for n, v in job.quick.items())
        parameters.append(_parameter("quick", bool, f"a short study, done in minutes: {listed}"))
    main.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    main.__annotations__ = {p.name: p.annotation for p in parameters}
    return main


def options_given(given: Mapping[str, Any], job: JobDefinition) -> StudyOptions:
    """Return a job's options from its command line, and from ``--quick`` if that is given.

    The value of an option that is not given is None or empty.

    Raises:
        InvalidValue: naming the option, the value and what is allowed.
    """
    texts = {name: value for name, value in given.items() if value is not None and value != []}
    quick = (job.quick or {}) if texts.pop("quick", False) else {}
    return parse(texts, parse(dict(quick), job.defaults))


@contextmanager
def exit_codes(interrupted: str) -> Iterator[None]:
    """Turn the ends of an incomplete job into an exit code and one line on standard error.

    The line is ``interrupted`` after a ``KeyboardInterrupt``.
    """
    try:
        yield
    except Ended as end:
        print_line(Terminal(stderr=True), end.line, end.style)
        sys.exit(end.code)
    except Overtaken as error:
        print_line(Terminal(stderr=True), f"stopped: {error}")
        sys.exit(STOPPED)
    except KeyboardInterrupt:
        print_line(Terminal(stderr=True), interrupted)
        sys.exit(INTERRUPTED)


def _parameter(name: str, kind: Any, text: str) -> inspect.Parameter:
    metavar = next((shown for shown, names in METAVARS.items() if name in names.split()), None)
    option = Option(option_name(name), help=text, show_default=False, metavar=metavar)
    keyword, annotation = inspect.Parameter.KEYWORD_ONLY, Annotated[kind | None, option]
    return inspect.Parameter(name, keyword, default=None, annotation=annotation)


def _shown(name: str, value: object) -> str:
    """Return a default as ``--help`` shows it; empty if it is off or part of the help text."""
    if name in ("concurrent", "stall_timeout") and value is None:
        return "auto"
    if name in ("optuna", "tracking") or value is None or value == () or value is False:
        return ""
    if name in OFF_AT_ZERO and value == 0:
        return ""
    if isinstance(value, tuple):
        return " ".join(str(item) for item in value)
    return f"{value:,}" if isinstance(value, int) else str(value)
