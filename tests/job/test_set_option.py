"""``--set``: what our texts show is planned, and what a method does not take is refused.

Nothing is read and Ray is not started: options are parsed, the space is narrowed, and the method's
own settings are made of what is fixed.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sentune.cli.cluster_plan import options_of, read_job
from sentune.errors import InvalidValue
from sentune.job.command import JobDefinition
from sentune.job.families import JobFamily, make_job
from sentune.methods import CLOSED_FORM, find, find_closed_form
from sentune.study.space import Choice, Integer, Uniform

ROOT = Path(__file__).resolve().parents[2]
JOBS = {path.name: read_job(path) for path in sorted((ROOT / "jobs").glob("tune_*.py"))}
WORDS = ("--corpus", "stsb:a.csv", "--dev", "stsb:b.csv", "--vectors", "glove:c.txt")
SHOWN = re.compile(r"(tune_\w+\.py)|--set\s+(\w+)=([^\s`\"')|]+)")


def planned(script_job: JobDefinition, *settings: str) -> JobFamily:
    """The job with these ``--set`` options, before anything is read."""
    named = WORDS if script_job.space.method in CLOSED_FORM else ()
    given = [part for setting in settings for part in ("--set", setting)]
    return make_job(options_of(script_job, [*named, *given]), script_job.space)


def texts() -> Iterator[tuple[str, str]]:
    """(file, text) of README, docs and every docstring and comment of search spaces and jobs."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    for path in (
        *sorted((ROOT / "jobs").glob("*.py")),
        *sorted((ROOT / "search_spaces").glob("*")),
    ):
        if path.suffix == ".py":
            yield f"{path.parent.name}/{path.name}", path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "platform").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                yield path.relative_to(ROOT).as_posix(), ast.get_docstring(node) or ""


def settings_of(script_job: JobDefinition) -> set[str]:
    """Every name that ``--set`` takes in a job."""
    method = script_job.space.method
    if method in CLOSED_FORM:
        kind = find_closed_form(method)
        return {*kind.settings_type.model_fields, kind.axis.name}
    from sentune.training.settings import TrainingSettings

    trained = find(method)
    names = {*trained.settings_type.model_fields, *TrainingSettings.model_fields}
    return names | {readout.name for readout in trained.readouts}


def shown() -> Iterator[tuple[str, str, str]]:
    """(where, job, ``key=value``): the job is the last one named before that has the setting."""
    for where, text in texts():
        above = [f"tune_{Path(where).stem}.py"] if where.startswith("search_spaces") else []
        for name, key, value in SHOWN.findall(text):
            if name:
                above.append(name)
                continue
            if "..." in value or value.isupper() or key == "key":  # a form, no setting
                continue
            value = value.rstrip(".,;:")
            jobs = [job for job in reversed(above) if job in JOBS and key in settings_of(JOBS[job])]
            jobs = jobs or [job for job in JOBS if key in settings_of(JOBS[job])]
            assert jobs, f"{where}: no job has the setting of --set {key}={value}"
            yield where, jobs[0], f"{key}={value}"


ALL_SHOWN = sorted(set(shown()))


def test_the_texts_are_found() -> None:
    named = {(job, setting) for _, job, setting in ALL_SHOWN}
    for known in (
        ("tune_gauss.py", "reverse_weight=0"),
        ("tune_intersent.py", "alpha=0"),
        ("tune_invertible.py", "constraint=false"),
        ("tune_gumbel.py", "alpha_1=0.3,0.5"),
    ):
        assert known in named
    assert len(ALL_SHOWN) > 40


@pytest.mark.parametrize(
    ("job", "setting"), sorted({(job, setting) for _, job, setting in ALL_SHOWN})
)
def test_what_our_texts_show_is_planned(job: str, setting: str) -> None:
    assert planned(JOBS[job], setting).config.trials >= 1


@pytest.mark.parametrize(
    ("job", "setting", "fixed"),
    [
        ("tune_gauss.py", "reverse_weight=0", 0.0),
        ("tune_intersent.py", "alpha=0", 0.0),
        ("tune_laes.py", "form=reco", "reco"),
        ("tune_laes.py", "max_length=none", None),
        ("tune_gumbel.py", "dimension=64", 64),
        ("tune_gumbel.py", "learning_rate=1e-6", 1e-6),
        ("tune_gumbel.py", "schedule=rising", "rising"),
        ("tune_gumbel.py", "micro_batch=none", None),
        ("tune_intersent.py", "train_encoder=false", False),
    ],
)
def test_a_value_that_the_method_takes_is_fixed_also_outside_the_search(
    job: str, setting: str, fixed: object
) -> None:
    space = planned(JOBS[job], setting).space
    name = setting.partition("=")[0]
    assert name not in space.settings
    assert space.fixed[name] == fixed
    assert type(space.fixed[name]) is type(fixed)


def test_lists_and_ranges_may_leave_the_search_too() -> None:
    space = planned(JOBS["tune_gumbel.py"], "dimension=16,64", "learning_rate=1e-6..1e-4").space
    assert space.settings["dimension"] == Choice(16, 64)
    assert space.settings["learning_rate"] == Uniform(1e-6, 1e-4, log=True)
    wide = planned(JOBS["tune_invertible.py"], "negatives=10..40").space
    assert wide.settings["negatives"] == Integer(10, 40)


@pytest.mark.parametrize(
    ("job", "setting", "told"),
    [
        ("tune_gumbel.py", "dimension=0", "greater than or equal to 1"),
        ("tune_gumbel.py", "dimension=many", "valid integer"),
        ("tune_gumbel.py", "pooling=last", "'cls', 'mean' or 'max'"),
        ("tune_gumbel.py", "reverse_weight=inf", "finite"),
        ("tune_gumbel.py", "temperature=0", "greater than 0"),
        ("tune_gumbel.py", "reverse_weight=0..4", "logarithmic"),
        ("tune_gumbel.py", "dimension=40..60", "none of 8, 16, 32"),
        ("tune_gumbel.py", "batch=64", "the settings are"),
        ("tune_laes.py", "form=other", "'hid'"),
        ("tune_laes.py", "a=0", "greater than 0"),
    ],
)
def test_what_the_method_does_not_take_is_refused(job: str, setting: str, told: str) -> None:
    with pytest.raises(InvalidValue, match=re.escape(told)) as caught:
        planned(JOBS[job], setting)
    assert str(caught.value).startswith(f"--set {setting.partition('=')[0]}")


@pytest.mark.parametrize("job", ["tune_gumbel.py", "tune_laes.py", "tune_invertible.py"])
@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("published", {"published": {"temprature": 0.05}}),
        ("live", {"live": frozenset({"temprature"})}),
        ("starts", {"starts": {"temprature": {}}}),
        ("starts[small]", {"starts": {"small": {"temprature": 0.05}}}),
        ("readouts", {"readouts": {"temprature": (0.1, 0.2)}}),
    ],
)
def test_names_that_are_no_parameter_of_the_method_are_refused(
    job: str, field: str, change: dict[str, Any]
) -> None:
    space = replace(JOBS[job].space, **change)
    known = r"known names are \w+"
    with pytest.raises(InvalidValue, match=rf"'temprature' cannot be used; {known}") as caught:
        planned(replace(JOBS[job], space=space))
    assert caught.value.field == f"SearchSpace.{field}"


def test_every_search_space_has_a_job() -> None:
    spaces = {path.stem for path in (ROOT / "search_spaces").glob("*.py")} - {"__init__"}
    for name in spaces:
        found = vars(importlib.import_module(f"search_spaces.{name}"))
        assert any(script_job.space in found.values() for script_job in JOBS.values()), name


@pytest.mark.parametrize(
    ("script", "settings", "every"),
    [
        ("tune_gumbel.py", ["batch_size=512"], 51_200),
        ("tune_gauss.py", ["batch_size=16"], 1_600),
        ("tune_gauss.py", ["batch_size=64,32"], 3_200),
    ],
)
def test_the_paper_s_profile_chooses_by_the_area_every_100_steps(
    script: str, settings: list[str], every: int
) -> None:
    given = ["--profile", "paper", *(part for s in settings for part in ("--set", s))]
    job = JOBS[script]
    made = make_job(options_of(job, given), job.space)
    assert (made.space.objective, made.space.mode) == ("rte/auc", "max")
    assert made.config.validate_every == every
    assert planned(job, *settings).space.objective == "direction/accuracy"
    for other in (["--objective", "rte/accuracy"], ["--validate-every", "50"]):
        with pytest.raises(InvalidValue, match=r"--profile: 'paper' .*leave these out"):
            make_job(options_of(job, [*given, *other]), job.space)
