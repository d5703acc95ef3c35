"""The options of every job, typed and checked before anything starts."""

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

from sentune.errors import InvalidValue, invalid_value
from sentune.readouts.three_way import check_prior
from sentune.study import SAMPLERS, LauncherName, SchedulerName
from sentune.study.space.objectives import Constraint, Objective
from sentune.user_code import installed

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def _workers(value: object) -> object:
    """Return ``4`` as 4, ``2-8`` as (2, 8)."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", value)
    if match is None:
        raise ValueError("give a number of workers (2) or a range (1-8)")
    low, high = match.groups()
    return int(low) if high is None else (int(low), int(high))


def _in_order(workers: int | tuple[int, int]) -> int | tuple[int, int]:
    """Return workers; raise ``ValueError`` for a range that is none."""
    if isinstance(workers, tuple) and not 1 <= workers[0] <= workers[1]:
        raise ValueError("give MIN-MAX, 1 <= MIN <= MAX")
    return workers


def _checked_by(check: Callable[[str], object]) -> BeforeValidator:
    """Return a validator that keeps the text on which a check does not raise."""

    def checked(value: str) -> str:
        check(value)
        return value

    return BeforeValidator(checked)


def _check_storage(value: str) -> None:
    if _in_rays_copy() and "://" not in str(value) and not Path(value).expanduser().is_absolute():
        raise ValueError(
            "this job's working folder is a copy that Ray deletes; give an absolute path or a URI"
        )


def _check_sampler(value: str) -> None:
    plugins = installed("samplers")
    if ":" not in value and value not in (*SAMPLERS, *plugins):
        listed = ", ".join([*SAMPLERS, *plugins])
        raise ValueError(f"give one of {listed}, grid:NAME, or MODULE:CLASS")


def _check_name(value: str) -> None:
    if not NAME.fullmatch(value):
        raise ValueError("give letters, digits, '.', '_' and '-' (at most 64), no path")


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
    """Return ``N`` or ``P%`` as text; a program may give a number."""
    from sentune.corpora.formats.spec import parse_bad_rows  # imports pyarrow

    parse_bad_rows(str(value))
    return str(value)


Workers = Annotated[
    Annotated[int, Field(ge=1, le=10_000)] | tuple[int, int],
    BeforeValidator(_workers),
    AfterValidator(_in_order),
]
Count = Annotated[int, Field(ge=1)]
StudyName = Annotated[str, _checked_by(_check_name)]
Auto = BeforeValidator(lambda value: None if value == "auto" else value)
All = BeforeValidator(lambda value: None if value == "all" else value)
Encoder = Annotated[str, Field(description="Hugging Face encoder by name or path, or builtin:tiny")]


class StudyOptions(BaseModel):
    """Options of any job; the text under a field is the option's help."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    corpus: str | tuple[str, ...] = ""
    """training corpus, FORMAT:PATH[?rows=A:B]"""
    dev: tuple[str, ...] = ()
    """corpus to select on, or TASK=FORMAT:PATH for one task; repeat it for several (default: with
    a built-in corpus, built-in ones)"""
    test: tuple[str, ...] = ()
    """corpus read once, at the end, for the winner; repeat it for several"""
    limit: Count | None = None
    """rows of the training corpus to use at most"""
    bad_rows: Annotated[str, BeforeValidator(_bad_rows)] | None = None
    """bad rows of each corpus, N or P% of its rows, that are left out before they are an error
    (default: 100)"""
    trials: Count = 8
    """configurations to try"""
    concurrent: Annotated[Count | None, Auto] = None
    """trials at a time, or 'auto': as many as the cluster holds"""
    max_concurrent: Count | None = None
    """trials at a time at most, where the cluster would hold more"""
    priority: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    """weight among the studies that share the cluster: 2 gets twice the places of 1"""
    sampler: Annotated[str, _checked_by(_check_sampler)] = Field(
        "tpe",
        description=f"{', '.join(SAMPLERS)}; grid:NAME for a paper's grid, MODULE:CLASS for one of "
        "one's own",
    )
    objective: Annotated[
        tuple[Annotated[str, _checked_by(Objective.parse)], ...], AfterValidator(_distinct)
    ] = ()
    """metric to select by, task/metric or task/metric:min; repeat it for a Pareto front, without
    rungs; the finals go by the first"""
    constraint: tuple[Annotated[str, _checked_by(Constraint.parse)], ...] = ()
    """bound on a metric, such as 'train/seconds<=600'; repeat it for several"""
    try_first: tuple[str, ...] = ()
    """key=value,key=value: settings of a first trial; repeat it for several"""
    warm_start: tuple[str, ...] = ()
    """study of this storage whose trials the sampler learns from"""
    no_history: bool = False
    """do not try the best settings of earlier studies of the method in this storage"""
    fork: StudyName | None = None
    """go on as a new study of this name that knows the old one's trials"""
    max_trials: Count | None = None
    """trials to start at most, over all starts; the finals are beside them"""
    max_hours: Annotated[float, Field(gt=0)] | None = None
    """hours to run at most, over all starts; room for the finals is kept"""
    max_gpu_hours: Annotated[float, Field(gt=0)] | None = None
    """GPU hours to use at most, over all starts, finals included"""
    stop_after_no_gain: Count | None = None
    """end the search after so many trials without a new best"""
    failed_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """share of failed trials above which the study stops, from five on"""
    workers: Workers = 1
    """workers a trial: N, or MIN-MAX for an elastic group"""
    gpus_per_worker: Annotated[float, Field(ge=0)] = 0.0
    """GPUs a worker; fractions share one"""
    stall_timeout: Annotated[Annotated[float, Field(gt=0)] | None, Auto] = None
    """seconds without a sign of a trial after which its processes are ended and it goes on from
    its checkpoint, or 'auto': ten times the slowest seen, at least 300"""
    keep: Count = 3
    """best trials whose checkpoints stay, beside the winner's"""
    force_test: bool = False
    """read the test corpora once more, for another winner; it is recorded"""
    study: StudyName = "study"
    """name; the same name resumes"""
    storage: Annotated[str, _checked_by(_check_storage)] = Field(
        default_factory=lambda: default_storage()
    )
    """folder or fsspec URI of all studies"""
    cache: str | None = None
    """folder that all nodes see, or fsspec URI, for prepared corpora, tokens and encoders
    (default: .cache in the storage)"""
    optuna: str | None = Field(default_factory=lambda: os.environ.get("SENTUNE_OPTUNA") or None)
    """Optuna storage URL (default: $SENTUNE_OPTUNA, else a journal in the study's folder)"""
    tracking: str | None = Field(default_factory=lambda: os.environ.get("SENTUNE_TRACKING") or None)
    """MLflow URI (default: $SENTUNE_TRACKING, else SQLite in the storage)"""
    share_mb: Annotated[int, Field(ge=0)] = 512
    """MB of a corpus up to which it is shared in memory, else it streams"""
    seed: int = 0
    """seed of the whole study"""
    set: tuple[str, ...] = ()
    """key=value: fix a setting at any value that its method takes; key=a,b or key=low..high:
    search it there, or give a readout its grid"""
    search_readouts: bool = False
    """draw readouts like settings instead of sweeping them"""
    allow_overlap: bool = False
    """train, select and test on equal corpora, which is refused otherwise"""
    dry_run: bool = False
    """print the plan and stop"""

    @property
    def corpora(self) -> tuple[str, ...]:
        """The training corpora, most jobs have one."""
        return self.corpus if isinstance(self.corpus, tuple) else (self.corpus,)

    @property
    def pretrained(self) -> str:
        """The encoder, or the word vectors; empty where it has none."""
        named = getattr(self, "encoder", "") or getattr(self, "vectors", "")
        return named if isinstance(named, str) else " ".join(named)

    @property
    def narrowing(self) -> dict[str, str]:
        """``--set`` as key -> value.

        Raises:
            InvalidValue: one of them has no ``=`` or a key stands twice.
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

    scheduler: SchedulerName = "asha-promotion"
    """which trials end at a rung"""
    population: Annotated[int, Field(ge=0), AfterValidator(_members)] = 0
    """population-based training with so many members, one launcher process each; then --trials,
    --scheduler and the finals do not apply (default: off)"""
    generations: Count = 5
    """segments of a member of the population"""
    checkpoint_every: Annotated[int, Field(ge=0)] = 0
    """examples between checkpoints to resume from (default: at the milestones, and whenever a
    trial is interrupted or its machine taken back)"""

    max_examples: Count = 27_000
    """budget of a full trial, in examples"""
    finalists: Annotated[int, Field(ge=0)] = 1
    """best trials that are trained again from fresh seeds"""
    seeds: Count = 2
    """fresh seeds a finalist"""
    launcher: LauncherName = "auto"
    """inline: in the trial's own process; train: a Ray Train group"""
    validate_every: Count | None = None
    """examples between validations, each on all of dev (default: at the rungs and the end)"""
    rung_rows: Annotated[Count | None, All] = 2_000
    """rows of each dev corpus that rungs are judged on, a stratified part, or 'all'; the end of a
    trial and the finals have all of it"""
    eta: Annotated[int, Field(ge=2)] = 3
    """of the trials at a rung one in eta goes on; rungs are eta times apart"""

    @model_validator(mode="after")
    def _dev_belongs_to_the_corpus(self) -> TrainingOptions:
        own = [spec for spec in self.corpora if not spec.startswith("builtin:")]
        if own and not self.dev:
            raise InvalidValue(
                "--dev", "", f"say on which corpus to select, as --corpus is {own[0]}"
            )
        return self


class JobOptions(TrainingOptions):
    """Options of a method that embeds sentences and compares them."""

    corpus: str = "builtin:nli"
    """training corpus, FORMAT:PATH[?rows=A:B]"""
    encoder: Encoder = "builtin:tiny"
    references: str | None = None
    """corpus of the reference sentences of interpretations (default: the training corpus)"""
    prior: Annotated[str, _checked_by(check_prior)] | None = None
    """share of the class both (both=0.3), or all classes alike (balanced), to which ambiguous-rte
    weights its development pairs where it chooses readouts (default: as they are)"""
    profile: Literal["paper"] | None = None
    """paper: choose checkpoints as the papers of boxes and Gaussians do, by rte/auc every 100 steps
    (of the smallest batch size, if several are tried), for --objective and --validate-every"""


class OperationOptions(TrainingOptions):
    """Options of a method that decodes what operations make of embeddings."""

    corpus: tuple[str, ...] = ("builtin:operations",)
    """training corpus, FORMAT:PATH[?rows=A:B]; repeat it to mix several: mix_FORMAT is a setting
    then, how often its rows are drawn (1: as its size has it)"""
    encoder: Encoder = "builtin:tiny"
    decoder: str = "builtin:tiny"
    """Hugging Face decoder or encoder-decoder by name or path, or builtin:tiny"""


class WordOptions(TrainingOptions):
    """Options of a method that is trained by gradient on fixed word vectors."""

    corpus: str = "builtin:stories"
    """training corpus, FORMAT:PATH[?rows=A:B]"""
    vectors: str = "builtin:ppmi"
    """word vectors, glove:FILE or fasttext:FILE, .gz too, or builtin:ppmi, learned from the
    training corpus"""
    frequencies: str | None = None
    """counts of words, a FILE of 'word count' or wordfreq:en"""


class ClosedFormOptions(StudyOptions):
    """Options of a method on word vectors, which is fitted in closed form."""

    corpus: str = ""
    """training corpus, FORMAT:PATH[?rows=A:B]"""
    vectors: tuple[str, ...] = ()
    """word vectors, glove:FILE or fasttext:FILE, .gz too; several are searched"""
    frequencies: str | None = None
    """counts of words, a FILE of 'word count' or wordfreq:en, which sif and usif need (default:
    none, all words weigh the same)"""

    def check_complete(self) -> None:
        """Raise ``InvalidValue`` where options that have no default are missing; names them all."""
        fixes = {
            "--corpus": (self.corpus, "say what to fit on, such as stsb:sts-train.csv"),
            "--dev": (self.dev, "give scored pairs to select on: stsb:sts-dev.csv"),
            "--vectors": (self.vectors, "give word vectors, such as glove:glove.840B.txt"),
        }
        missing = {option: fix for option, (value, fix) in fixes.items() if not value}
        if missing:
            raise InvalidValue(", ".join(missing), "", "; ".join(missing.values()))


AnyOptions = TypeVar("AnyOptions", bound=StudyOptions)


def option_name(field: str) -> str:
    """Return ``--max-examples`` for ``max_examples``."""
    return "--" + field.replace("_", "-")


def parse(given: dict[str, Any], defaults: AnyOptions) -> AnyOptions:
    """Return ``defaults`` with what was given on the command line, or by a program.

    One text is enough where several may be given.

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
        InvalidValue: a study would learn from itself.
    """
    known = (*options.warm_start, *([options.study] if options.fork else ()))
    if (new := options.fork or options.study) in known:
        option = "--fork" if options.fork else "--warm-start"
        raise InvalidValue(option, new, "a study cannot learn from itself; give another name")
    if options.fork is None:
        return options
    return options.model_copy(update={"study": options.fork, "fork": None, "warm_start": known})


def default_storage() -> str:
    """Return ``studies``; a folder at home where the working folder is a copy that Ray deletes.

    ``SENTUNE_STORAGE`` overrides both.
    """
    if named := os.environ.get("SENTUNE_STORAGE"):
        return named
    return str(Path.home() / "sentune" / "studies") if _in_rays_copy() else "studies"


def _in_rays_copy() -> bool:
    """Return whether the working folder is the temporary copy of ``ray job submit --working-dir``:
    a relative path there would lose the study with the job."""
    return "runtime_resources" in Path.cwd().resolve().parts
