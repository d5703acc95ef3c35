"""The corpora and word tables of a job, and what rules without a model reach on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sentune.corpora.formats import kinds_of, read, read_pairs
from sentune.corpora.schema import Corpus, Kind
from sentune.encoders.words import WordTable
from sentune.encoders.words.whole import save_whole
from sentune.errors import InvalidValue
from sentune.io.folders import whole_folder
from sentune.job.options import JobOptions, StudyOptions
from sentune.launchers.artifact_transfer import ShippedFolder, ship
from sentune.methods import REGISTRY
from sentune.readouts.grid import grid_of
from sentune.readouts.interpretation import REFERENCES
from sentune.study.space.domains import Choice, Dimension, Uniform
from sentune.study.space.space import SearchSpace
from sentune.tasks import (
    DirectionTask,
    Generation,
    Rte,
    Transfer,
    bag_of_words_direction,
    entailment_pairs,
    tasks_for,
)
from sentune.tasks.references import References

STORED = 1_000
"""n of the references that go with a model where no task has chosen one: 3,000 sentences, half a
minute for a BERT of 6 layers on a CPU."""


@dataclass(frozen=True, kw_only=True)
class Corpora:
    """What a study trains on and selects on. The test corpora are not read before its end."""

    train: Corpus
    dev: tuple[Corpus, ...]
    references: Corpus | None = None

    def trained_on(self) -> dict[str, dict[str, Any]]:
        """Role -> the training corpus and that of the references, as they stand in the summary."""
        roles = {"corpus": self.train}
        if self.references is not None:
            roles["references"] = self.references
        return {role: describe(corpus) for role, corpus in roles.items()}

    def sentences(self) -> Iterator[str]:
        """The sentences of the training corpus, for a tokenizer to learn its words from."""
        for column in self.train.table.itercolumns():
            yield from column.to_pylist()


def describe(corpus: Corpus) -> dict[str, Any]:
    """A corpus as it stands in the summary."""
    return {
        "spec": corpus.spec,
        "fingerprint": corpus.fingerprint,
        "rows": corpus.table.num_rows,
        "kind": corpus.kind.value,
        "counts": dict(corpus.counts),
    }


def sample_references(space: SearchSpace, corpora: Corpora, seed: int) -> References | None:
    """The reference sentences of interpretations; None where the method has none.

    A sample of the training corpus, or of ``--references``, for each n of the grid.
    """
    if REFERENCES not in REGISTRY[space.method].readouts:
        return None
    corpus = corpora.references or corpora.train
    drawn = space.settings.get(REFERENCES.name)
    grid = (
        drawn.values
        if isinstance(drawn, Choice)
        else grid_of(REFERENCES, space.grids_for(space.fixed))
    )
    counts = {STORED, *(int(n) for n in grid if n is not None)}
    return References.sample(corpus.table, sorted(counts), seed)


def needs_references(corpora: Sequence[Corpus]) -> bool:
    """Whether a task of these corpora asks for interpretations."""
    return any(c.kind in (Kind.SEVERAL_LABELS, Kind.CONDITIONED_PAIRS) for c in corpora)


def numbered(role: str, index: int) -> str:
    """``dev``, ``dev-2``, ``dev-3``."""
    return role if index == 0 else f"{role}-{index + 1}"


def read_corpora(options: JobOptions, method: str, builtin: Sequence[str]) -> Corpora:
    """Reads ``--corpus``, ``--dev`` (else that of ``builtin``) and ``--references``.

    Raises:
        CorpusError, InvalidValue: what cannot be read, with file and line or option.
    """
    train = read(options.corpus, REGISTRY[method].kind, limit=options.limit)
    if not train.table.num_rows:
        raise InvalidValue("--corpus", options.corpus, "it has no row to train on")
    references = None
    if options.references is not None:
        if REFERENCES not in REGISTRY[method].readouts:
            fix = f"{method} has no interpretations; leave it out"
            raise InvalidValue("--references", options.references, fix)
        references = read(options.references, kinds_of(options.references)[0])
    dev = dev_corpora(options, builtin)
    return Corpora(train=train, dev=dev, references=references)


def dev_corpora(
    options: StudyOptions, builtin: Sequence[str], prefer: Kind | None = None
) -> tuple[Corpus, ...]:
    """``--dev``, else the dev split of what ships with the package."""
    return read_evaluation(options.dev or [f"{name}?split=dev" for name in builtin], prefer)


def test_specs(options: StudyOptions, builtin: Sequence[str]) -> tuple[str, ...]:
    """``--test``; where everything else ships with the package, so does the test set."""
    own = [spec for spec in options.corpora if not spec.startswith("builtin:")]
    if options.test or own or options.dev:
        return options.test
    return tuple(f"{name}?split=test" for name in builtin)


def read_evaluation(specs: Sequence[str], prefer: Kind | None = None) -> tuple[Corpus, ...]:
    """What is judged on; of a format with several kinds of pairs the preferred one, else labels."""
    return tuple(read_pairs(spec, prefer=prefer) for spec in specs)


def with_weights(space: SearchSpace, names: Sequence[str]) -> SearchSpace:
    """The space with the weights of all corpora but the first, whose own is 1.

    Of weights only their ratios matter; 1 draws a corpus as often as its size has it.
    """
    first, *others = names
    searched: dict[str, Dimension] = {name: Uniform(0.1, 10.0, log=True) for name in others}
    return replace(
        space,
        settings={**space.settings, **searched},
        fixed={first: 1.0, **space.fixed},
        published={**dict.fromkeys(others, 1.0), **space.published},
    )


@dataclass(frozen=True)
class ShippedWords:
    """A word table in the object store; on the driver's machine it stays where it is cached."""

    folder: ShippedFolder

    def open(self) -> WordTable:
        """The table, memory-mapped."""
        return WordTable.load(self.folder.open())


def shipped_words(table: WordTable, cache: Path) -> ShippedWords:
    """The table in the object store, from a folder that holds all of it."""
    folder = cache / table.fingerprint
    if not folder.is_dir():
        with whole_folder(folder) as beside:
            save_whole(table, beside)
    return ShippedWords(ship(str(folder)))


def baselines(train: Corpus | None, judged: Sequence[Corpus]) -> dict[str, float]:
    """``task/metric`` -> fraction on the corpora that a model is judged on.

    The larger class on every RTE and transfer task, LENGTH on every direction task, copying the
    input where sentences are generated; where there are entailments to learn from, also a bag of
    words trained on the training corpus, which tells how much the words alone give away.
    """
    found: dict[str, float] = {}
    for task in tasks_for(*judged):
        if isinstance(task, Rte | Transfer):
            found[f"{task.name}/majority"] = task.majority()
        if isinstance(task, Generation):
            found |= task.baselines()
        if not isinstance(task, DirectionTask):
            continue
        found |= task.baselines()
        if train is not None and train.kind is Kind.TRIPLETS:
            pairs = list(zip(task.pairs.first, task.pairs.second, strict=True))
            found[f"{task.name}/bag_of_words"] = bag_of_words_direction(
                entailment_pairs(train), pairs
            )
    return found
