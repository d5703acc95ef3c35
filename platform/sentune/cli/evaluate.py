"""``sentune evaluate``: measure a model on tasks and print the results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich.console import Console
from typer import Option

from sentune.cli.options import (
    BatchSize,
    Device,
    Json,
    Limit,
    Model,
    Prior,
    ReferenceCorpus,
    Settings,
    key_and_value,
    look_here,
)
from sentune.errors import InvalidValue
from sentune.formatting import NO_SHARES
from sentune.terminal import Terminal, number_column, plain_table, print_line

if TYPE_CHECKING:
    from sentune.corpora.schema import Corpus
    from sentune.embedder.embedder import Embedder
    from sentune.readouts.grid import Grid
    from sentune.tasks import References, Result

# all other metrics are shares, shown in percent
PLAIN = ("auc", "average_precision", "spearman", "pearson", *NO_SHARES)


def evaluate(
    model: Model,
    task: Annotated[
        list[str],
        Option(
            metavar="TASK=FORMAT:PATH",
            help="Task and corpus: rte=snli:PATH, sts=stsb:PATH, mr=senteval:FOLDER, "
            "retrieval=beir:FOLDER, generation=wikisplit:PATH; your own task is MODULE:CLASS. "
            "Repeatable. docs/tasks.md lists all tasks.",
        ),
    ],
    dev: Annotated[
        list[str] | None,
        Option(
            metavar="TASK=FORMAT:PATH",
            help="Development set to choose readouts such as the threshold on; default: the "
            "readouts stored with the model. Repeatable.",
        ),
    ] = None,
    references: ReferenceCorpus = None,
    count: Annotated[
        list[int] | None,
        Option(
            "--count",
            min=1,
            metavar="N",
            help="Sample N rows of --references. Repeatable; default: all.",
        ),
    ] = None,
    set_: Settings = None,
    prior: Prior = None,
    json: Json = None,
    exclude: Annotated[
        Literal["both-ways", "none"],
        Option(
            help="Pairs that the task direction leaves out if a corpus labels both directions: "
            "both-ways (GumbelCSE) or none (GaussCSE)."
        ),
    ] = "both-ways",
    component_from: Annotated[
        Literal["corpus", "task"],
        Option(
            help="Principal component that models of invertible decoders remove for sts: that of "
            "the training corpus, stored with the model, or that of the task's own sentences, as "
            "in papers."
        ),
    ] = "corpus",
    limit: Limit = None,
    batch_size: BatchSize = 64,
    device: Device = None,
) -> None:
    """Measure a model on tasks; tasks that it cannot do are listed with the reason.

    --set gives the grid of a readout, which is swept on --dev. If ambiguous-rte sweeps several
    alpha_1, the best combination of each is also measured on the tasks, for information only.
    """
    from sentune.embedder.embedder import Embedder
    from sentune.methods import CLOSED_FORM
    from sentune.tasks import AmbiguousRte, pose
    from sentune.tasks.ambiguous import BY_ALPHA_1

    if count and references is None:
        raise InvalidValue("--count", count[0], "it samples --references; give these, too")
    if set_ and not dev:
        raise InvalidValue("--set", set_[0], "the grid is swept on --dev; give --dev too")
    if prior and not dev:
        raise InvalidValue("--prior", prior, "it weights the pairs of --dev; give --dev too")
    wanted = _corpora("--task", task, limit)
    embedder = Embedder.load(model, device)
    if dev and embedder.name in CLOSED_FORM:
        fix = f"the readout of {embedder.name} is chosen by tuning; leave this option out"
        raise InvalidValue("--dev", " ".join(dev), fix)
    if set_ and embedder.method is None:
        fix = f"{embedder.name} has no readouts with a grid; leave it out"
        raise InvalidValue("--set", set_[0], fix)
    embedder.require_component(component_from, "--component-from")
    judge = partial(embedder.evaluate, batch_size=batch_size, component_from=component_from)
    chosen, tuned = pose(
        wanted,
        _corpora("--dev", dev or [], limit),
        judge,
        prior=prior or "",
        grids=_grids(embedder.name, set_ or []),
        exclude=exclude,
        references=_references(embedder, references, count or []),
    )
    readouts = {**embedder.readouts, **tuned.readouts}
    rows = tuned.tables.get(f"{AmbiguousRte.kind}/{BY_ALPHA_1}", [])
    ambiguous = [t for t in chosen if isinstance(t, AmbiguousRte)] if len(rows) > 1 else []
    for one in ambiguous:
        at_each, own_readouts = one.at_each(rows)
        chosen += at_each
        readouts |= own_readouts
    result = judge(chosen, readouts)
    report_results(result, Terminal(), json)
    for one in ambiguous:
        _report_alphas(one.name, rows, result.metrics, Terminal())


def _references(embedder: Embedder, spec: str | None, counts: list[int]) -> References | None:
    """Return the references of interpretations: rows of a corpus, or those of the model."""
    from sentune.corpora.formats import read
    from sentune.tasks import References
    from sentune.tasks.references import kind_of_references

    if spec is not None:
        table = read(spec, kind_of_references(spec)).table
        return References.sample(table, counts or [table.num_rows], seed=0)
    stored = embedder.references
    return None if stored is None else stored.for_tasks()


def _grids(method: str, items: list[str]) -> dict[str, Grid]:
    """Return readout -> grid to sweep, from the values of ``--set``."""
    from sentune.methods import find

    grids: dict[str, Grid] = {}
    own = {readout.name: readout for readout in find(method).readouts} if items else {}
    known = ", ".join(own) or "none with a grid"
    for item in items:
        name, text = key_and_value("--set", item, f"readouts of {method}: {known}", own)
        grids[name] = own[name].parse(text)
    return grids


def _corpora(option: str, texts: list[str], limit: int | None) -> list[tuple[str, Corpus]]:
    """Return (task, corpus) for each ``TASK=FORMAT:PATH``, read as the task needs it."""
    from sentune.corpora.formats import read
    from sentune.corpora.schema import left_out
    from sentune.tasks import TASKS, kind_of, of_task, task_and_corpus

    look_here()
    fix = f"write TASK=FORMAT:PATH with TASK one of {', '.join(TASKS)}, or MODULE:CLASS"
    found = []
    for text in texts:
        kind, spec = task_and_corpus(text)
        if not kind:
            raise InvalidValue(option, text, fix)
        corpus = read(of_task(spec, kind), kind_of(kind, option), limit=limit)
        if warning := left_out(corpus.described()):
            print_line(Terminal(stderr=True), f"warning: {spec}: {warning}")
        found.append((kind, corpus))
    return found


def _report_alphas(
    task: str, rows: Sequence[Mapping[str, Any]], metrics: Mapping[str, float], console: Console
) -> None:
    """Print the best combination of readouts for each alpha_1 on dev, and its metrics on a task."""
    readouts = ("alpha_1", "alpha_2", "references", "intersection")
    seen = ("macro_f1", "f1_both", "accuracy")
    shares = ("empty", "dev", "dev at prior", "macro F1", "F1 of both", "accuracy")
    table = plain_table(*readouts, *map(number_column, shares), header_style="dim")
    for row in rows:
        on_dev = [row[name] for name in ("empty_sets", "macro_f1", "swept")]
        on_task = [metrics[f"{task}@{row['alpha_1']:g}/{name}"] for name in seen]
        shown = [f"{value:.2%}" for value in (*on_dev, *on_task)]
        table.add_row(*(str(row[name]) for name in readouts), *shown)
    always = f"{metrics[f'{task}/always_both']:.2%}"
    line = f"{task} with the best readouts on dev for each alpha_1 (not used for any choice); "
    print_line(console, f"{line}F1 of both when always answering both: {always}")
    console.print(table)


def report_results(result: Result, console: Console, json: Path | None = None) -> None:
    """Print the metrics, the readouts that were applied, and the metrics that are missing.

    Args:
        json: file to which ``{task: {metric: fraction}}`` is written.
    """
    from sentune.io.atomic import disk_faults
    from sentune.io.folders import write_json

    by_task: defaultdict[str, dict[str, float]] = defaultdict(dict)
    numbers = map(number_column, ("value", "pairs"))
    table = plain_table("task", "metric", *numbers, header_style="dim")
    for name, value in result.metrics.items():
        task, _, metric = name.partition("/")
        by_task[task][metric] = value
        if "@" in task:
            continue
        # number of pairs measured: those of the metric's stratum, or all of the task
        counts = result.tables.get(f"{task}/counts.json", {})
        pairs = counts.get(metric, counts.get("pairs"))
        shown = f"{pairs:,}" if isinstance(pairs, int) else ""
        table.add_row(task, metric, _value(metric, value), shown)
    console.print(table)
    for name, readout in result.readouts.items():
        if "@" in name:
            continue
        shown = f"{readout:.4g}" if isinstance(readout, float) else readout
        print_line(console, f"readout {name}: {shown}")
    for reason, names in _by_reason(result).items():
        print_line(console, f"not measured: {names}: {reason}")
    if json is not None:
        with disk_faults(json, option="--json"):
            json.parent.mkdir(parents=True, exist_ok=True)
            write_json(json, by_task)


def _by_reason(result: Result) -> dict[str, str]:
    """Return reason -> missing metrics, such as ``ambiguous-rte/macro_f1, accuracy``."""
    found: defaultdict[str, dict[str, list[str]]] = defaultdict(dict)
    for name, reason in result.skipped.items():
        task, _, metric = name.partition("/")
        found[reason].setdefault(task, []).extend([metric] if metric else [])
    return {
        reason: "; ".join(f"{task}/{', '.join(m)}" if m else task for task, m in tasks.items())
        for reason, tasks in found.items()
    }


def _value(metric: str, value: float) -> str:
    """Return a value in percent unless its metric, without prefix or suffix, is in ``PLAIN``."""
    base = metric.rpartition("/")[2].removesuffix("_mean").removesuffix("_weighted")
    known = base.removeprefix("sen_").removeprefix("dev_").removeprefix("words_") in PLAIN
    return f"{value:.4f}" if known else f"{value:.2%}"
