"""One training run on this machine: corpus to model folder, in one process or several."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.multiprocessing.spawn import spawn

from sentune.corpora import Corpus
from sentune.corpora.batches import Held, SharedSource
from sentune.corpora.formats import kinds_of, read_pairs
from sentune.corpora.mixing import Mixture, apart, weight_names
from sentune.corpora.schema import Kind
from sentune.corpora.tokens import META, TokenTable
from sentune.errors import InvalidValue
from sentune.io.folders import read_manifest, whole_folder
from sentune.methods import GradientMethod, find
from sentune.readouts.grid import Grid, Grids, grid_of
from sentune.readouts.interpretation import REFERENCES
from sentune.tasks.references import References
from sentune.training.checkpoints import CheckpointStore, SavedProgress
from sentune.training.group import Group
from sentune.training.inputs import InputMaker
from sentune.training.loop import train
from sentune.training.model import export_checkpoint, link_to, seal_model
from sentune.training.schedules import milestones
from sentune.training.settings import TrainingSettings, split
from sentune.training.trial import TrialSpec

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class LocalRun:
    """What to train; see ``sentune train --help``. Written into the folder of the run.

    Only methods that decode may have several corpora.
    """

    method: str
    settings: dict[str, Any]
    corpus: tuple[str, ...]
    dev: tuple[str, ...]
    encoder: str
    max_examples: int
    limit: int | None = None
    validate_every: int | None = None
    objective: str | None = None
    seed: int = 0
    references: str | None = None
    decoder: str = "builtin:tiny"
    vectors: str = "builtin:ppmi"
    frequencies: str | None = None


def run_locally(run: LocalRun, out: Path, *, workers: int = 1, say: Say) -> Path:
    """Train, keep the best checkpoint, and write it as ``out/model``.

    Args:
        out: folder of the run; a run that was interrupted there goes on.
        workers: processes with one device each; 1 stays in this process.
        say: takes a line at every milestone.

    Returns:
        The model folder.

    Raises:
        InvalidValue: ``out`` holds another run, or a value of the run cannot be used.
        TrialFailed: the training cannot go on.
    """
    if torch.cuda.is_available() and workers > torch.cuda.device_count():
        fix = f"this machine has {torch.cuda.device_count()} GPUs"
        raise InvalidValue("--workers", workers, fix)
    dev = [read_pairs(spec) for spec in run.dev]
    spec, tokens = _make_spec(run, dev, out.resolve())
    _claim({**asdict(run), "tokens": tokens}, out)
    if workers == 1:
        _follow(spec, Group.single(), say)
    else:
        with tempfile.TemporaryDirectory() as meeting:
            start: Callable[..., None] = spawn  # without types in torch
            start(_worker, (spec, workers, meeting, say), nprocs=workers)
    store = CheckpointStore(spec.directory)
    checkpoint, best = store.best(), store.best_progress()
    if checkpoint is None or best is None:
        raise InvalidValue("--out", str(out), "no checkpoint was written there")
    with whole_folder(out / "model") as folder:
        export_checkpoint(
            checkpoint,
            folder,
            method=run.method,
            settings=spec.settings,
            encoder=spec.encoder,
            readouts=best.readouts,
            card=_card(run, best, dev),
        )
        seal_model(folder, {"chain": _chain(spec, tokens, checkpoint, dev)})
    return out / "model"


def _chain(
    spec: TrialSpec, tokens: str, checkpoint: Path, dev: list[Corpus]
) -> dict[str, dict[str, Any]]:
    """Return the checksums of what the model was made of, and where it lies."""
    checkpoints = Path(spec.directory)
    out, cache = checkpoints.parent, checkpoints.parent / "cache" / "tokens"
    manifests = {key: read_manifest(cache / key / META)[0] for key in tokens.split("+")}
    return {
        "corpora": {corpus.spec: corpus.fingerprint for corpus in dev},
        "derived": {
            f"{out.name}/cache/tokens/{key}": manifest["checksum"]
            for key, manifest in manifests.items()
        },
        "checkpoint": link_to(checkpoint, checkpoints.name),
    }


def _make_spec(run: LocalRun, dev: list[Corpus], out: Path) -> tuple[TrialSpec, str]:
    """The run as a trial, and its tokens' fingerprint; what it needs lies in ``out/cache``."""
    kind = find(run.method)
    readouts = {readout.name: readout for readout in kind.readouts}
    grids: dict[str, Grid] = {
        name: readouts[name].parse(str(value))
        for name, value in run.settings.items()
        if name in readouts
    }
    settings = {name: value for name, value in run.settings.items() if name not in readouts}
    settings, weights = apart(settings, weight_names(run.corpus))
    _, training = split(settings, kind)
    folder, tables, references = _inputs(run, kind, training, grids, out / "cache")
    sources = [SharedSource(table) for table in tables]
    steps = run.validate_every
    every = steps * training.batch_size if steps else -(-run.max_examples // 10)
    spec = TrialSpec(
        study=out.name,
        trial="local",
        method=run.method,
        settings=settings,
        encoder=folder,
        corpus=Held(sources[0] if len(sources) == 1 else Mixture(sources, weights)),
        dev=Held(dev),
        max_examples=run.max_examples,
        milestones=milestones(run.max_examples, every),
        objective=run.objective or kind.objective,
        seed=run.seed,
        directory=str(out / "checkpoints"),
        readouts=grids,
        references=references,
    )
    return spec, "+".join(table.fingerprint for table in tables)


def _inputs(
    run: LocalRun, kind: type[GradientMethod], training: TrainingSettings, grids: Grids, cache: Path
) -> tuple[str, list[TokenTable], Held | None]:
    """What the method is built from, the tokens of each corpus, and reference sentences.

    The latter are a sample of ``references``, or of the corpus; None for a method without
    interpretations.
    """
    if kind.kind is not Kind.OPERATIONS and len(run.corpus) != 1:
        raise InvalidValue("--corpus", " ".join(run.corpus), f"{kind.title} trains on one corpus")
    maker = InputMaker(max_length=training.max_length, cache=cache, limit=run.limit)
    if kind.kind is Kind.OPERATIONS:
        made = maker.operations(run.corpus, encoder=run.encoder, decoder=run.decoder)
    elif kind.kind is Kind.ADJACENT_SENTENCES:
        made = maker.words(run.corpus[0], vectors=run.vectors, frequencies=run.frequencies)
    else:
        made = maker.sentences(run.corpus[0], kind, encoder=run.encoder)
    tables = [tokens.load() for tokens in made.tokens]
    if REFERENCES not in kind.readouts:
        return made.folder, tables, None
    (source,) = made.corpora
    if run.references is not None:
        source = maker.prepared(run.references, kinds_of(run.references)[0])
    counts = [int(count) for count in grid_of(REFERENCES, grids)]
    return made.folder, tables, Held(References.sample(source, counts, run.seed))


def _claim(run: dict[str, Any], out: Path) -> None:
    """One folder holds one run: going on with another would mix two."""
    file, written = out / "run.json", json.dumps(run, indent=1) + "\n"
    if file.is_file() and file.read_text(encoding="utf-8") != written:
        theirs, ours = json.loads(file.read_text(encoding="utf-8")), json.loads(written)
        differing = ", ".join(key for key in ours if ours[key] != theirs.get(key))
        raise InvalidValue("--out", str(out), f"it holds a run with another {differing}")
    out.mkdir(parents=True, exist_ok=True)
    file.write_text(written, encoding="utf-8")


def _worker(rank: int, spec: TrialSpec, workers: int, meeting: str, say: Say) -> None:
    """One process of several; they find each other through a file."""
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
        _follow(spec, Group.from_torch_distributed(), say)
    finally:
        distributed.destroy_process_group()


def _follow(spec: TrialSpec, group: Group, say: Say) -> None:
    """Train to the end, writing checkpoints and saying every milestone on rank 0."""
    store = CheckpointStore(spec.directory)
    told: set[str] = set()
    with closing(train(spec, group)) as progresses:  # type: ignore[type-var]
        for progress in progresses:
            if not group.is_first:
                continue
            metrics = progress.metrics
            if spec.objective not in metrics:
                found = ", ".join(sorted(metrics))
                raise InvalidValue("--objective", spec.objective, f"there are {found}")
            value = metrics[spec.objective]
            store.save(progress, -value if spec.mode == "min" else value)
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
    trained = {"corpus": ", ".join(run.corpus), "seed": run.seed}
    kind = find(run.method).kind
    if kind is Kind.ADJACENT_SENTENCES:
        trained |= {"vectors": run.vectors}
    else:
        trained |= {"encoder": run.encoder}
    if kind is Kind.OPERATIONS:
        trained |= {"decoder": run.decoder}
    return {
        "Metrics on the development corpora": best.metrics,
        "Lineage": {
            **trained,
            "examples": best.examples,
            "dev": {corpus.spec: corpus.fingerprint for corpus in dev},
        },
    }
