"""The options of all jobs, as pydantic models that check types and ranges."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from sentune.errors import InvalidValue, invalid_value, option_name
from sentune.readouts.three_way import check_prior
from sentune.study import SAMPLERS, SCHEDULERS, LauncherName, SchedulerName
from sentune.study.space.objectives import Constraint, Objective
from sentune.user_code import installed

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def default_storage() -> str:
    """Return the storage that is used unless one is given: ``$SENTUNE_STORAGE``, else ``studies``.

    In a job of ``ray job submit --working-dir`` it is ``~/sentune/studies``, because Ray deletes
    the working folder.
    """
    if named := os.environ.get("SENTUNE_STORAGE"):
        return named
    return str(Path.home() / "sentune" / "studies") if _in_rays_copy() else "studies"


def _in_rays_copy() -> bool:
    """Return whether the working folder is the copy that ``ray job submit --working-dir`` makes."""
    return "runtime_resources" in Path.cwd().resolve().parts


def _workers(value: object) -> object:
    """Parse ``4`` as 4 and ``2-8`` as (2, 8)."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", value)
    if match is None:
        raise ValueError("give a number of workers (2) or a range (1-8)")
    low, high = match.groups()
    return int(low) if high is None else (int(low), int(high))


def _in_order(workers: int | tuple[int, int]) -> int | tuple[int, int]:
    """Return ``workers``; raise ``ValueError`` unless a range has 1 <= MIN <= MAX."""
    if isinstance(workers, tuple) and not 1 <= workers[0] <= workers[1]:
        raise ValueError("give MIN-MAX, 1 <= MIN <= MAX")
    return workers


def _checked_by(check: Callable[[str], object]) -> BeforeValidator:
    """Return a validator that calls ``check``, which raises ``ValueError``, and keeps the text."""

    def checked(value: str) -> str:
        check(value)
        return value

    return BeforeValidator(checked)


def _check_storage(value: str) -> None:
    if _in_rays_copy() and "://" not in str(value) and not Path(value).expanduser().is_absolute():
        raise ValueError(
            "this job's working folder is deleted by Ray; give an absolute path or a URI"
        )


def _check_sampler(value: str) -> None:
    known = [*SAMPLERS, *installed("samplers")]
    if ":" not in value and value not in known:
        raise ValueError(f"give one of {', '.join(known)}, grid:NAME, or MODULE:CLASS")


def check_name(value: str) -> None:
    """Raise a ``ValueError`` for a text that cannot be a study's name."""
    if not NAME.fullmatch(value):
        raise ValueError("give letters a-z, digits, '.', '_' and '-' (at most 64), no path")


def _distinct(texts: tuple[str, ...]) -> tuple[str, ...]:
    metrics = [Objective.parse(text).metric for text in texts]
    if len({*metrics}) < len(metrics):
        raise ValueError("give each metric once")
    return texts


def _members(number: int) -> int:
    if number == 1:
        raise ValueError("give 2 or more members, or 0 for none")
    return number


def _bad_rows(value: object) -> str:
    """Check ``N`` or ``P%`` and return it as text; the Python API may give a number."""
    from sentune.corpora.formats.spec import parse_bad_rows  # imports pyarrow

    parse_bad_rows(str(value))
    return str(value)


Workers = Annotated[
    Annotated[int, Field(ge=1, le=10_000)] | tuple[int, int],
    BeforeValidator(_workers),
    AfterValidator(_in_order),
]
Count = Annotated[int, Field(ge=1)]
StudyName = Annotated[str, _checked_by(check_name)]
Auto = BeforeValidator(lambda value: None if value == "auto" else value)
All = BeforeValidator(lambda value: None if value == "all" else value)
Encoder = Annotated[str, Field(description="Hugging Face encoder by name or path, or builtin:tiny")]


class StudyOptions(BaseModel):
    """Options of all jobs; the docstring of a field is the help of its option."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    corpus: str | tuple[str, ...] = ""
    """training corpus, FORMAT:PATH[?rows=A:B]"""
    dev: tuple[str, ...] = ()
    """corpus to select on, or TASK=FORMAT:PATH for one task; repeat it for several (default:
    built-in corpora if --corpus is built in)"""
    test: tuple[str, ...] = ()
    """corpus to test the winner on, once, at the end; repeat it for several"""
    limit: Count | None = None
    """use at most N rows of the training corpus"""
    bad_rows: Annotated[str, BeforeValidator(_bad_rows)] | None = None
    """skip up to N bad rows of each corpus, or P% of its rows; more are an error (default: 100)"""
    trials: Count = 8
    """number of configurations to try"""
    concurrent: Annotated[Count | None, Auto] = None
    """number of trials at a time, or 'auto': as many as fit on the cluster"""
    max_concurrent: Count | None = None
    """upper limit on the number of trials at a time"""
    priority: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    """weight among studies that share the cluster: 2 runs twice as many trials at a time as 1"""
    sampler: Annotated[str, _checked_by(_check_sampler)] = Field(
        "tpe",
        description=f"{', '.join(SAMPLERS)}; grid:NAME for a paper's grid, MODULE:CLASS for your "
        "own class",
    )
    objective: Annotated[
        tuple[Annotated[str, _checked_by(Objective.parse)], ...], AfterValidator(_distinct)
    ] = ()
    """metric to select by, task/metric or task/metric:min; repeat it for a Pareto front, which has
    no rungs; finals use the first"""
    constraint: tuple[Annotated[str, _checked_by(Constraint.parse)], ...] = ()
    """bound on a metric, such as 'train/seconds<=600'; repeat it for several"""
    try_first: tuple[str, ...] = ()
    """settings of a trial to run first, key=value,key=value; repeat it for several; not for a grid
    """
    warm_start: tuple[str, ...] = ()
    """study of this storage whose trials the sampler learns from"""
    no_history: bool = False
    """do not try the best settings of earlier studies of the method in this storage"""
    fork: StudyName | None = None
    """continue --study as a new study of this name, whose sampler learns from the old trials"""
    max_trials: Count | None = None
    """start at most N trials, counted over all starts of the study, without the finals"""
    max_hours: Annotated[float, Field(gt=0)] | None = None
    """run for at most H hours, counted over all starts; time for the finals is reserved"""
    max_gpu_hours: Annotated[float, Field(gt=0)] | None = None
    """use at most H GPU hours, counted over all starts, finals included"""
    stop_after_no_gain: Count | None = None
    """end the search after N trials without a new best"""
    failed_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """share of failed trials above which the study stops, once five trials have ended"""
    workers: Workers = 1
    """workers per trial: N, or MIN-MAX for an elastic group"""
    gpus_per_worker: Annotated[float, Field(ge=0)] = 0.0
    """GPUs per worker; with a fraction, workers share a GPU"""
    stall_timeout: Annotated[Annotated[float, Field(gt=0)] | None, Auto] = None
    """seconds without progress after which a trial's processes are killed and it restarts from its
    checkpoint, or 'auto': ten times the longest pause so far, at least 300"""
    keep: Count = 3
    """number of best trials whose checkpoints are kept, besides the winner's"""
    force_test: bool = False
    """read the test corpora again for another winner; the reading is recorded as forced"""
    study: StudyName = "study"
    """name of the study; the same name resumes it"""
    storage: Annotated[str, _checked_by(_check_storage)] = Field(default_factory=default_storage)
    """folder or fsspec URI of all studies"""
    cache: str | None = None
    """folder shared by all nodes, or fsspec URI, for prepared corpora, tokens and encoders
    (default: .cache in the storage)"""
    optuna: str | None = Field(default_factory=lambda: os.environ.get("SENTUNE_OPTUNA") or None)
    """Optuna storage URL (default: $SENTUNE_OPTUNA, else a journal in the study's folder)"""
    tracking: str | None = Field(default_factory=lambda: os.environ.get("SENTUNE_TRACKING") or None)
    """MLflow URI (default: $SENTUNE_TRACKING, else SQLite in the storage)"""
    share_mb: Annotated[int, Field(ge=0)] = 512
    """share a corpus of up to N MB in memory; larger ones are streamed"""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """seed of the whole study"""
    set: tuple[str, ...] = ()
    """key=value fixes a setting at any value that the method allows; key=a,b or key=low..high sets
    the values to search, or the grid of a readout"""
    search_readouts: bool = False
    """search readouts like settings instead of sweeping them"""
    allow_overlap: bool = False
    """allow equal corpora for training, selection and test, which are refused otherwise"""
    dry_run: bool = False
    """print the plan and exit"""

    @property
    def corpora(self) -> tuple[str, ...]:
        """The training corpora; most jobs have one."""
        return self.corpus if isinstance(self.corpus, tuple) else (self.corpus,)

    @property
    def pretrained(self) -> str:
        """The encoder, or the word vectors; empty if the job has neither."""
        named = getattr(self, "encoder", "") or getattr(self, "vectors", "")
        return named if isinstance(named, str) else " ".join(named)

    @property
    def narrowing(self) -> dict[str, str]:
        """``--set`` as key -> value.

        Raises:
            InvalidValue: one of them has no ``=``, or a key is given twice.
        """
        pairs: dict[str, str] = {}
        for item in self.set:
            key, equals, value = item.partition("=")
            if not equals or not key or not value:
                raise InvalidValue("--set", item, "give key=value")
            if key in pairs:
                raise InvalidValue("--set", item, f"{key} is already set to {pairs[key]}")
            pairs[key] = value
        return pairs


class TrainingOptions(StudyOptions):
    """Options of any method that is trained by gradient."""

    scheduler: SchedulerName = Field(
        "asha-promotion",
        description=f"rule by which trials are stopped at rungs: {', '.join(SCHEDULERS)}",
    )
    population: Annotated[int, Field(ge=0), AfterValidator(_members)] = 0
    """population-based training with N members, one launcher process each; --trials, --sampler,
    --scheduler, --warm-start and the finals do not apply then (default: off)"""
    generations: Count = 5
    """segments that each member of the population trains"""
    checkpoint_every: Annotated[int, Field(ge=0)] = 0
    """examples between checkpoints to resume from (default: at the milestones, and when a trial is
    interrupted or its machine reclaimed)"""

    max_examples: Count = 27_000
    """examples that a full trial trains on"""
    finalists: Annotated[int, Field(ge=0)] = 1
    """number of best trials that are trained again from fresh seeds"""
    seeds: Count = 2
    """number of fresh seeds per finalist"""
    launcher: LauncherName = "auto"
    """inline: trains in the trial's own process; train: in a Ray Train worker group"""
    validate_every: Count | None = None
    """examples between validations, each on all of dev (default: at the rungs and the end)"""
    rung_rows: Annotated[Count | None, All] = 2_000
    """rows of each dev corpus, a stratified sample, to validate on at rungs, or 'all'; the end of a
    trial and the finals use all rows"""
    eta: Annotated[int, Field(ge=2)] = 3
    """one in N trials continues at a rung, and each rung has N times the examples of the last"""

    @model_validator(mode="after")
    def _dev_belongs_to_the_corpus(self) -> TrainingOptions:
        own = [spec for spec in self.corpora if not spec.startswith("builtin:")]
        if own and not self.dev:
            raise InvalidValue(
                "--dev", "", f"give a corpus to select on, because --corpus is {own[0]}"
            )
        return self


class JobOptions(TrainingOptions):
    """Options of a method that compares embeddings of sentences."""

    corpus: str = "builtin:nli"
    """training corpus, FORMAT:PATH[?rows=A:B]"""
    encoder: Encoder = "builtin:tiny"
    references: str | None = None
    """corpus from which the reference sentences of interpretations are drawn (default: the training
    corpus)"""
    prior: Annotated[str, _checked_by(check_prior)] | None = None
    """weight the development pairs of ambiguous-rte so that the class both has this share
    (both=0.3), or all classes equal ones (balanced), when readouts are chosen (default: no weights)
    """
    profile: Literal["paper"] | None = None
    """paper: choose checkpoints as the GumbelCSE and GaussCSE papers do, by rte/auc every 100 steps
    of the smallest batch size; it sets --objective and --validate-every"""


class OperationOptions(TrainingOptions):
    """Options of a method that decodes sentences from the results of operations on embeddings."""

    corpus: tuple[str, ...] = ("builtin:operations",)
    """training corpus, FORMAT:PATH[?rows=A:B]; repeat it to mix several, each drawn in proportion
    to its size times the setting mix_FORMAT"""
    encoder: Encoder = "builtin:tiny"
    decoder: str = "builtin:tiny"
    """Hugging Face decoder or encoder-decoder by name or path, or builtin:tiny"""


class WordOptions(TrainingOptions):
    """Options of a method that is trained by gradient on fixed word vectors."""

    corpus: str = "builtin:stories"
    """training corpus, FORMAT:PATH[?rows=A:B]"""
    vectors: str = "builtin:ppmi"
    """word vectors: glove:FILE or fasttext:FILE (plain or .gz), or builtin:ppmi, learned from the
    training corpus"""
    frequencies: str | None = None
    """word counts: a FILE of lines 'word count', or wordfreq:en"""


class ClosedFormOptions(StudyOptions):
    """Options of a method that is fitted in closed form on word vectors."""

    corpus: str = ""
    """training corpus, FORMAT:PATH[?rows=A:B] (required)"""
    dev: tuple[str, ...] = ()
    """scored pairs to select on, or TASK=FORMAT:PATH for one task; repeat it for several (required)
    """
    vectors: tuple[str, ...] = ()
    """word vectors: glove:FILE or fasttext:FILE (plain or .gz); repeat it to search several
    (required)"""
    frequencies: str | None = None
    """word counts, which sif, usif and the setting a of LAES need: a FILE of lines 'word count', or
    wordfreq:en (default: none, all words have the same weight)"""

    def check_complete(self) -> None:
        """Check the options that have no default.

        Raises:
            InvalidValue: some are missing; names them all.
        """
        fixes = {
            "--corpus": (self.corpus, "give a corpus to fit on, such as stsb:sts-train.csv"),
            "--dev": (self.dev, "give scored pairs to select on, such as stsb:sts-dev.csv"),
            "--vectors": (self.vectors, "give word vectors, such as glove:glove.840B.txt"),
        }
        missing = {option: fix for option, (value, fix) in fixes.items() if not value}
        if missing:
            raise InvalidValue(", ".join(missing), "", "; ".join(missing.values()))


AnyOptions = TypeVar("AnyOptions", bound=StudyOptions)


def parse(given: dict[str, Any], defaults: AnyOptions) -> AnyOptions:
    """Return ``defaults`` updated by the values given on the command line or in Python.

    A tuple of texts may be given as a single text.

    Raises:
        InvalidValue: naming the option, the value and what is allowed.
    """
    fields = type(defaults).model_fields
    several = {name for name, field in fields.items() if get_origin(field.annotation) is tuple}
    texts = {n: (v,) for n, v in given.items() if n in several and isinstance(v, str)}
    chosen = {**defaults.model_dump(), **given, **texts}
    try:
        return type(defaults).model_validate(chosen)
    except ValidationError as error:
        raise invalid_value(error, given, option_name) from None


def forked(options: AnyOptions) -> AnyOptions:
    """Return ``--study OLD --fork NEW`` as the options of study NEW, which learns from OLD.

    Raises:
        InvalidValue: ``--fork`` or ``--warm-start`` names the study itself.
    """
    known = (*options.warm_start, *([options.study] if options.fork else ()))
    if (new := options.fork or options.study) in known:
        option = "--fork" if options.fork else "--warm-start"
        raise InvalidValue(option, new, "a study cannot learn from itself; give another name")
    if options.fork is None:
        return options
    return options.model_copy(update={"study": options.fork, "fork": None, "warm_start": known})
