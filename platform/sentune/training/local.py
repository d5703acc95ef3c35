"""Train one model on this machine, in one process or several, and export its model folder."""

from __future__ import annotations

import gc
import json
import logging
import math
import os
import pickle
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
from pydantic import Field, model_validator
from torch import distributed
from torch.multiprocessing.spawn import ProcessException, start_processes

from sentune.beats import QUIET_SECONDS, begin, newest, repeated
from sentune.corpora import Corpus
from sentune.corpora.batches import Held, SharedSource
from sentune.corpora.mixing import Mixture, apart, weight_names
from sentune.corpora.prepare import prepared
from sentune.corpora.schema import Kind, left_out
from sentune.corpora.tokens import META
from sentune.credentials import without_credentials
from sentune.errors import InvalidValue, SentuneError, TrialFailed, option_name
from sentune.io.folders import read_manifest, whole_folder
from sentune.methods import CLOSED_FORM, ClosedForm, GradientMethod, find, find_closed_form
from sentune.methods.base import Settings
from sentune.readouts.grid import REFERENCES, Readout, grid_of
from sentune.tasks import check_posed, read_selected
from sentune.tasks.references import References, kind_of_references
from sentune.training.checkpoints import CHECKPOINT, CheckpointStore, SavedProgress
from sentune.training.closed_form import fit_and_sweep
from sentune.training.closed_form_model import (
    NEEDS_FREQUENCIES,
    VECTORS,
    check_scored,
    closed_form_settings,
    export_closed_form,
)
from sentune.training.group import Group
from sentune.training.inputs import (
    BUILTIN,
    PRETRAINED,
    STORIES,
    InputMaker,
    parts_of,
    preferred_pairs,
    word_table,
)
from sentune.training.loop import train
from sentune.training.model import export_checkpoint, link_to, seal_model
from sentune.training.model_card import HUB
from sentune.training.settings import check_budget, check_defaults, milestones, split, validated
from sentune.training.trial import Program, TrialSpec

Say = Callable[[str], None]


RUN_FILE, CHECKPOINTS, ERROR = "run.json", "checkpoints", "error-{}"
Count = Annotated[int, Field(ge=1)]


class LocalRun(Settings):
    """The options of ``sentune train``; they are written into the folder of the run.

    Only methods that decode may have several corpora. Without a corpus, the run uses the built-in
    ones of the method's kind.
    """

    method: str
    settings: dict[str, Any] = Field(default_factory=dict)
    corpus: tuple[str, ...] = ()
    dev: tuple[str, ...] = ()
    encoder: str = "builtin:tiny"
    max_examples: Count = 30_000
    limit: Count | None = None
    validate_every: Count | None = None
    objective: str | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    references: str | None = None
    decoder: str = "builtin:tiny"
    vectors: str = "builtin:ppmi"
    frequencies: str | None = None

    @classmethod
    def of(cls, **given: Any) -> LocalRun:
        """Return a validated run; raise ``InvalidValue`` if an option cannot be used."""
        return validated(cls, given, option_name)

    @model_validator(mode="after")
    def _complete(self) -> LocalRun:
        trained, judged = STORIES if self.method in CLOSED_FORM else BUILTIN[self.kind.kind]
        if not self.dev and not all(spec.startswith("builtin:") for spec in self.corpus):
            fix = "name a development corpus, because --corpus is not a built-in one"
            raise InvalidValue("--dev", "", fix)
        if self.kind.kind is not Kind.OPERATIONS and len(self.corpus) > 1:
            fix = f"{self.kind.title} trains on one corpus; name only one"
            raise InvalidValue("--corpus", " ".join(self.corpus), fix)
        used, unused = parts_of(self.kind), dict[str, str]()
        if REFERENCES not in getattr(self.kind, "readouts", ()):
            unused["references"] = "has no interpretations"
        built = f"is built from {' and '.join(f'--{part}' for part in used)}"
        unused |= dict.fromkeys(sorted(PRETRAINED.difference(used)), built)
        if self.vectors.startswith("builtin:"):
            counts = f"counts words in the corpus if --vectors is {self.vectors}"
            unused.setdefault("frequencies", counts)
        if self.method in CLOSED_FORM:
            unused["max_examples"] = "is fitted on the whole corpus, or on --limit rows of it"
            unused["validate_every"] = "is validated once, after the fit"
        for name, why in unused.items():
            if (value := getattr(self, name)) != type(self).model_fields[name].default:
                fix = f"{self.kind.title} {why}; leave it out"
                raise InvalidValue(option_name(name), value, fix)
        object.__setattr__(self, "corpus", self.corpus or (trained,))
        object.__setattr__(self, "dev", self.dev or tuple(f"{name}?split=dev" for name in judged))
        return self

    @property
    def kind(self) -> type[GradientMethod] | type[ClosedForm]:
        """The class of the method."""
        return CLOSED_FORM[self.method] if self.method in CLOSED_FORM else find(self.method)


class _Trial(NamedTuple):
    """The trial of a run.

    Attributes:
        inputs: fingerprint -> manifest file in the cache, for each training input.
        export: writes the model of a checkpoint into a folder.
        described: entries of the training corpora in a summary.
    """

    spec: TrialSpec
    program: Program
    inputs: Mapping[str, Path]
    export: Callable[..., None]
    described: Sequence[Mapping[str, Any]]


def run_locally(run: LocalRun, out: Path, *, workers: int = 1, say: Say) -> Path:
    """Train a model and export its best checkpoint to ``out/model``.

    Args:
        out: folder of the run; an interrupted run in it is resumed.
        workers: number of processes with one device each; 1 trains in this process.
        say: called with a line at every milestone, and every 30 seconds.

    Returns:
        The model folder.

    Raises:
        InvalidValue: ``out`` contains another run, or an option cannot be used.
        TrialFailed: training failed, for example because the loss is not finite.
    """
    if workers < 1:
        raise InvalidValue("--workers", workers, "give at least 1")
    if torch.cuda.is_available() and workers > torch.cuda.device_count():
        fix = f"give at most {torch.cuda.device_count()}, the number of GPUs of this machine"
        raise InvalidValue("--workers", workers, fix)
    above = out.resolve().parent
    trial = (_fitted if run.method in CLOSED_FORM else _trained)(run, out.resolve())
    dev = trial.spec.dev.open()
    for corpus in (*trial.described, *(one.described() for one in dev)):
        if warning := left_out(corpus):
            say(f"warning: {corpus['spec']}: {warning}")
    check_posed("--objective", [trial.spec.objective], dev)
    prints = "+".join(corpus.fingerprint for corpus in dev)
    _claim({**run.model_dump(), "inputs": "+".join(trial.inputs), "dev_fingerprints": prints}, out)
    if workers == 1:
        _follow(trial, Group.single(), say)
    else:
        _follow_in_group(trial, workers, say)
    store = CheckpointStore(trial.spec.directory)
    checkpoint, best = store.best(), store.best_progress()
    if checkpoint is None or best is None:
        raise InvalidValue("--out", str(out), "it has no undamaged checkpoint; train again")
    chain = {
        "corpora": {corpus.spec: corpus.fingerprint for corpus in dev},
        "derived": {
            file.parent.relative_to(above).as_posix(): read_manifest(file)[0]["checksum"]
            for file in trial.inputs.values()
        },
        "checkpoint": link_to(checkpoint, Path(trial.spec.directory).name),
    }
    with whole_folder(out / "model") as folder:
        trial.export(checkpoint, folder, readouts=best.readouts, card=_card(run, best, dev))
        seal_model(folder, {"chain": chain})
    return out / "model"


def _trained(run: LocalRun, out: Path) -> _Trial:
    """Return the trial of a gradient-trained method."""
    kind = find(run.method)
    check_defaults(kind)
    spec = _spec(run, out, kind.readouts)
    settings, weights = apart(spec.settings, weight_names(run.corpus))
    _, training = split(settings, kind)
    check_budget(run.max_examples, training.batch_size)
    maker = InputMaker(max_length=training.max_length, cache=out / "cache", limit=run.limit)
    made = maker.inputs(kind, run.corpus, **{name: getattr(run, name) for name in PRETRAINED})
    sources = [SharedSource(tokens.load()) for tokens in made.tokens]
    references = None
    if REFERENCES in kind.readouts:
        (source,) = made.corpora
        if run.references is not None:
            source = maker.prepared(run.references, kind_of_references(run.references))
        counts = [int(count) for count in grid_of(REFERENCES, spec.readouts)]
        references = Held(References.sample(source, counts, run.seed))
    steps = run.validate_every or max(1, -(-run.max_examples // (10 * training.batch_size)))
    spec = replace(
        spec,
        settings=settings,
        encoder=made.folder,
        corpus=Held(sources[0] if len(sources) == 1 else Mixture(sources, weights)),
        milestones=milestones(run.max_examples, steps * training.batch_size),
        references=references,
    )
    export = partial(export_checkpoint, method=run.method, settings=settings, encoder=made.folder)
    inputs = {tokens.fingerprint: tokens.path / META for tokens in made.tokens}
    described = [corpus.described() for corpus in made.corpora]
    return _Trial(spec, train, inputs, export, described)


def _fitted(run: LocalRun, out: Path) -> _Trial:
    """Return the trial of a closed-form method."""
    spec, cache = _spec(run, out, (find_closed_form(run.method).axis,)), out / "cache"
    settings = {**spec.settings, VECTORS: str(without_credentials(run.vectors))}
    chosen = closed_form_settings(run.method, settings)
    check_scored(spec.dev.open(), run.method)
    corpus = prepared(run.corpus[0], Kind.SENTENCES, cache / "sentences", limit=run.limit)
    words = word_table(corpus, run.vectors, run.frequencies, cache)
    if getattr(chosen, "variant", "average") != "average" and not words.probabilities.any():
        raise InvalidValue("--frequencies", "", NEEDS_FREQUENCIES)
    spec = replace(
        spec,
        settings=settings,
        corpus=Held(corpus.load()),
        max_examples=corpus.num_rows,
        milestones=(corpus.num_rows,),
    )
    program = partial(fit_and_sweep, words={settings[VECTORS]: Held(words)})
    export = partial(export_closed_form, words=words, settings=settings, objective=spec.objective)
    inputs = {corpus.fingerprint: Path(corpus.manifest_file)}
    return _Trial(spec, program, inputs, export, [corpus.described()])


def _spec(run: LocalRun, out: Path, known: Sequence[Readout]) -> TrialSpec:
    """Return the specification of a run, without its training corpus and milestones."""
    prefer = preferred_pairs(run.kind)
    readouts = {readout.name: readout for readout in known}
    aim = run.objective or run.kind.objective
    metric, mode = aim.rsplit(":", 1) if aim.endswith((":max", ":min")) else (aim, "max")
    return TrialSpec(
        trial="local",
        method=run.method,
        settings={n: v for n, v in run.settings.items() if n not in readouts},
        encoder="",
        corpus=Held(None),
        dev=Held([read_selected(spec, prefer=prefer) for spec in run.dev]),
        max_examples=run.max_examples,
        milestones=(),
        objective=metric,
        mode=mode,
        seed=run.seed,
        directory=str(out / CHECKPOINTS),
        readouts={n: readouts[n].parse(str(v)) for n, v in run.settings.items() if n in readouts},
    )


def _claim(run: dict[str, Any], out: Path) -> None:
    """Write the options of a run into its folder.

    Raises:
        InvalidValue: the folder has checkpoints of a run with other options.
    """
    file, written = out / RUN_FILE, json.dumps(run, indent=1) + "\n"
    if file.is_file() and any((out / CHECKPOINTS).glob(f"{CHECKPOINT}*")):
        theirs, ours = json.loads(file.read_text(encoding="utf-8")), json.loads(written)
        # earlier versions did not record all options
        if differing := [key for key in ours if ours[key] != theirs.get(key, ours[key])]:
            fix = f"it contains a run that differs in {', '.join(differing)}"
            raise InvalidValue("--out", str(out), f"{fix}; name another folder, or delete it")
    out.mkdir(parents=True, exist_ok=True)
    file.write_text(written, encoding="utf-8")


def _follow_in_group(trial: _Trial, workers: int, say: Say) -> None:
    """Train in several processes, which end with this call.

    Raises:
        SentuneError: the error of one of the processes.
    """
    start: Callable[..., Any] = start_processes  # torch declares no types for it
    # torch warns about each process that it terminates
    logging.getLogger(start_processes.__module__).setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as meeting:
        arguments = (trial, workers, meeting, say)
        group = start(_worker, arguments, nprocs=workers, join=False, daemon=True)
        try:
            while not group.join():
                continue
        except ProcessException:
            for file in Path(meeting).glob(ERROR.format("*")):
                raise pickle.loads(file.read_bytes()) from None
            raise
        finally:  # also on Ctrl-C, when the processes wait for each other
            for process in group.processes:
                process.kill()


def _worker(rank: int, trial: _Trial, workers: int, meeting: str, say: Say) -> None:
    """Train as one of several processes, which meet and leave errors in the folder ``meeting``."""
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))
    distributed.init_process_group(
        "nccl" if cuda else "gloo",
        init_method=f"file://{meeting}/store",
        rank=rank,
        world_size=workers,
    )
    try:
        _follow(trial, Group.from_torch_distributed(), say)
    except SentuneError as error:
        Path(meeting, ERROR.format(rank)).write_bytes(pickle.dumps(error))
        raise
    # Not after an error: the frames of the traceback may keep a gradient reducer alive, which then
    # holds the last reference to the group, and torch may deadlock. Garbage collection frees those
    # in reference cycles.
    gc.collect()
    distributed.destroy_process_group()


def _follow(trial: _Trial, group: Group, say: Say) -> None:
    """Train to the end; on rank 0, write checkpoints, report every milestone and the progress."""
    spec, told = trial.spec, set[str]()
    store = CheckpointStore(spec.directory)

    def say_progress() -> None:
        say(newest().in_words(newest().examples, spec.max_examples))

    begin()
    lines = repeated(say_progress, QUIET_SECONDS, "sentune-progress")
    program = closing(trial.program(spec, group))  # type: ignore[type-var]
    with lines if group.is_first else nullcontext(), program as progresses:
        for progress in progresses:
            if not group.is_first:
                continue
            metrics = progress.metrics
            if spec.objective not in metrics:
                found = ", ".join(sorted(metrics))
                raise InvalidValue("--objective", spec.objective, f"choose among {found}")
            value = metrics[spec.objective]
            if not math.isfinite(value):
                at = f"{progress.examples:,} examples"
                raise TrialFailed(f"{spec.objective} is {value} at {at}")
            store.save(progress, value if spec.mode == "max" else -value)
            for note in dict.fromkeys((*progress.notes, *store.notes)):
                if note not in told:
                    told.add(note)
                    say(note)
            parts = [f"{progress.examples:>10,} examples", f"{spec.objective} {value:.4f}"]
            if "train/loss" in metrics:
                parts.append(f"loss {metrics['train/loss']:.4f}")
                parts.append(f"{metrics['train/examples_per_second']:,.0f} examples/s")
            say("  ".join([*parts, f"{metrics['train/seconds']:,.0f} s"]))


def _card(run: LocalRun, best: SavedProgress, dev: list[Corpus]) -> dict[str, dict[str, Any]]:
    kind, judged = run.kind, {corpus.spec: corpus.fingerprint for corpus in dev}
    trained = {name: getattr(run, name) for name in parts_of(kind) if name != "frequencies"}
    corpora = {f"corpus.{place}" if place else "corpus": c for place, c in enumerate(run.corpus)}
    hub = {
        "encoder": trained.get("encoder", ""),
        "corpora": {**corpora, "dev": ", ".join(judged)},
        "split": "dev",
        "metrics": {n: v for n, v in best.metrics.items() if not n.startswith("train/")},
    }
    lineage = {"corpus": ", ".join(run.corpus), "seed": run.seed, **trained}
    return {
        HUB: hub,
        "Metrics on the development corpora": best.metrics,
        "Lineage": {**lineage, "examples": best.examples, "dev": judged},
    }
