"""Exports the winner's model of a study and measures it once on the test corpora."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import scipy

from sentune.corpora.batches import Held
from sentune.corpora.ray_map import on_worker, over_cluster, several_machines
from sentune.corpora.schema import Corpus
from sentune.credentials import without_credentials
from sentune.embedder.behaviour import behaviour
from sentune.embedder.embedder import Embedder
from sentune.errors import SentuneError
from sentune.io.folders import whole_folder
from sentune.io.object_store import files_at, is_local
from sentune.job.artifacts import artifacts_folder
from sentune.job.baselines import baselines_of
from sentune.job.corpora import needs_references, numbered, with_bad_rows
from sentune.job.families.base import JobFamily
from sentune.job.study_files import MODEL, refuse_late
from sentune.job.test_set import TestReads, Winner, best_run
from sentune.launchers.artifact_transfer import ship
from sentune.readouts.sweep import sweeps_among
from sentune.records import StudySummary
from sentune.report.behaviour import BEHAVIOUR_FILE
from sentune.report.paired import HITS_FILE
from sentune.report.view import ERROR, View, of_subset
from sentune.study.runner.retention import note_published
from sentune.summary import as_written, read_summary
from sentune.tasks import Result, read_judged, tasks_for
from sentune.tasks.references import References
from sentune.tasks.sts import METRICS, standard_error
from sentune.training.checkpoint_storage import PROGRESS_FILE
from sentune.training.inputs import preferred_pairs
from sentune.training.model import link_to, seal_model
from sentune.training.model_card import HUB, VERDICT
from sentune.training.trial import Opens


def publish(job: JobFamily, run: str, checkpoint: Path, summary: StudySummary) -> dict[str, Any]:
    """Write ``model/``; put test metrics, baselines and the model's path into ``summary``.

    The winner is measured on the test corpora only once. A study that was complete before keeps its
    test metrics if the winner and the test corpora are still the same.

    Args:
        job: of the study, prepared.
        run: name of the winner's run; if a trial was trained again, it differs from ``Winner.run``.
        checkpoint: the run's best.
        summary: with the results of the search and the finals.

    Returns:
        File name -> content of the tables: sweeps on dev, curves and counts on the test corpora
        (on dev without these), and the model's behaviour on pairs of dev.

    Raises:
        StudyConflict: the test corpora were read before for another winner, or other corpora were;
            model and summary stay as they are.
        Overtaken: a later start of the study has written a model or a summary.
        SentuneError: the winner's checkpoint is missing.
    """
    file = checkpoint / PROGRESS_FILE
    if not file.is_file():
        raise SentuneError(
            f"{checkpoint}: the winner's checkpoint is missing; start a new study with --fork "
            "NAME, which learns from this one's trials and trains the finalists again"
        )
    tables: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["tables"]
    storage, winner = job.config.folder, Winner.of(summary, run)
    specs = with_bad_rows(job.test, job.options.bad_rows)
    reads, known = TestReads(storage), _published(job, summary, winner, specs)
    if known is not None:
        summary.corpora, summary.test = known["corpora"], known["test"]
        summary.baselines = known["baselines"]
        summary.against_rules, tables = known.get("against_rules", {}), sweeps_among(tables)
    elif job.test:
        reads.begin(winner, job.test, force=job.options.force_test)
        tables = {**sweeps_among(tables), **_judge(job, checkpoint, summary, reads)}
    else:
        summary.baselines = baselines_of(job, job.dev).values
    summary.best, summary.test_reads = winner.trial, reads.known
    summary.model = f"{storage}/{MODEL}"
    generation = summary.lineage.get("generation", 0)
    chain = {
        **summary.lineage.get("chain", {}),
        "corpora": {role: corpus["fingerprint"] for role, corpus in summary.corpora.items()},
        "checkpoint": link_to(checkpoint, f"trials/{run}"),
    }
    with _new_model(summary.model) as folder:
        job.export(best_run(summary), checkpoint, folder, _card(summary))
        if job.dev:
            tables[BEHAVIOUR_FILE] = _where_gpus_are(job, _behave, folder, job.dev)
        origin = {"generation": generation, "test": as_written(summary.test), "chain": chain}
        summary.lineage["chain"] = {**chain, "model": seal_model(folder, origin)}
        refuse_late(storage, generation)
    note_published(storage, run)
    if known is None:  # tables of an earlier end may be of other data
        for table in artifacts_folder(job.config.storage, job.config.name).rglob("*.json"):
            table.unlink()
    return tables


@contextmanager
def _new_model(place: str) -> Iterator[Path]:
    """Yield an empty local folder whose content replaces the model at a path or URI."""
    files, root = files_at(place)
    if is_local(files):
        with whole_folder(Path(root)) as beside:
            yield beside
        return
    with tempfile.TemporaryDirectory(prefix="sentune-model-") as scratch:
        folder = Path(scratch, MODEL)
        folder.mkdir()
        yield folder
        files.put(f"{folder}/", f"{root}/", recursive=True)
        written = {file.relative_to(folder).as_posix() for file in folder.rglob("*")}
        for path in files.find(root):  # files of the replaced model
            if path.removeprefix(f"{root}/") not in written:
                files.rm_file(path)


def check_test(job: JobFamily) -> tuple[Corpus, ...]:
    """Read the test corpora before the study starts, so that errors are raised early.

    Returns:
        The corpora; empty if an earlier start of the study has been measured on them.

    Raises:
        CorpusError: a file is missing, has more bad rows than are allowed, or fits no task.
        InvalidValue: the format has no pairs.
    """
    if TestReads(job.config.folder).known:
        return ()
    test = _read_test(job)
    tasks_for(*test)
    return test


def _read_test(job: JobFamily) -> tuple[Corpus, ...]:
    specs = with_bad_rows(job.test, job.options.bad_rows)
    prefer = preferred_pairs(job.method)
    return tuple(read_judged(spec, prefer=prefer) for spec in specs)


def _judge(
    job: JobFamily, checkpoint: Path, summary: StudySummary, reads: TestReads
) -> dict[str, Any]:
    """Measure the winner on the test corpora; return the tables of the result.

    Metrics, baselines and the corpora are put into ``summary``, the fingerprints into ``reads``.
    """
    test = _read_test(job)
    described = [corpus.described() for corpus in test]
    reads.identify([corpus["fingerprint"] for corpus in described])
    for index, corpus in enumerate(described):
        summary.corpora[numbered("test", index)] = corpus
    with tempfile.TemporaryDirectory(prefix="sentune-model-") as scratch:
        folder = Path(scratch, MODEL)
        job.export(best_run(summary), checkpoint, folder, {})
        result = measured(job, folder, test)
    result.metrics |= _errors(result)
    rules = baselines_of(job, test)
    able = {name.partition("/")[0] for name in result.metrics}  # points have no direction task
    found = {name: v for name, v in rules.values.items() if name.partition("/")[0] in able}
    summary.baselines, summary.against_rules = found, rules.compared(result)
    summary.test = {k: v for k, v in result.metrics.items() if k not in summary.baselines}
    return {**result.tables, HITS_FILE: {n: hits.tolist() for n, hits in result.hits.items()}}


def _errors(result: Result) -> dict[str, float]:
    """Return the standard errors of accuracies and correlations over the items of each task."""
    hits = {metric: hits for metric, hits in result.hits.items() if len(hits) > 1}
    found = {f"{metric}{ERROR}": float(scipy.stats.sem(of)) for metric, of in hits.items()}
    for task, (similarities, scores) in result.scored.items():
        for name in METRICS:
            found[f"{task}/{name}{ERROR}"] = standard_error(similarities, scores, name)
    return found


def measured(job: JobFamily, folder: Path, test: tuple[Corpus, ...]) -> Result:
    """Return the metrics of the model in ``folder`` on the test corpora."""
    references = job.references if needs_references(test) else None
    result: Result = _where_gpus_are(job, _measure, folder, test, job.dev, references)
    return result


def _where_gpus_are(job: JobFamily, look: Callable[..., Any], folder: Path, *given: Any) -> Any:
    """Call ``look(handle of the model's folder, *given)`` on a worker with GPUs if the job has any,
    else in this process."""
    if gpus := job.config.gpus_per_worker:
        return on_worker(look, ship(str(folder)), *given, cpus=1, gpus=gpus)
    return look(Held(str(folder)), *given)


def _behave(model: Opens, dev: Sequence[Corpus]) -> dict[str, Any]:
    return behaviour(Embedder.load(model.open()), dev)


def _measure(
    model: Opens, test: tuple[Corpus, ...], dev: tuple[Corpus, ...], references: References | None
) -> Result:
    embedder = Embedder.load(model.open())
    spread = over_cluster if several_machines() else map
    tasks = tasks_for(*test, references=references, spread=spread, dev=dev)
    return embedder.evaluate(tasks, embedder.readouts)


def _published(
    job: JobFamily, summary: StudySummary, winner: Winner, test: tuple[str, ...]
) -> dict[str, Any] | None:
    """Return the written summary if it is complete and has the same winner and test corpora.

    Test files that are gone count as the same.
    """
    try:
        known = read_summary(job.config.folder)
    except FileNotFoundError:
        return None
    read = [corpus for role, corpus in known["corpora"].items() if role.startswith("test")]
    own = as_written(summary.to_dict())
    before, now = _winner(known, known.get("best")), _winner(own, winner.trial)
    same = [corpus["spec"] for corpus in read] == without_credentials(list(test)) and before == now
    if not (known["state"] == "complete" and known["test"] and same):
        return None
    try:
        content = [corpus.fingerprint for corpus in _read_test(job)]
    except SentuneError:
        return known
    return known if content == [corpus["fingerprint"] for corpus in read] else None


def _winner(summary: Mapping[str, Any], best: int | None) -> Any:
    """Return a key of the winner, or of the best trial without finals: trial, seeds and metrics."""
    if summary["winner"] is None:
        return best, [trial["metrics"] for trial in summary["trials"] if trial["id"] == best]
    finalist = summary["finalists"][summary["winner"]]
    return finalist["trial"], finalist["seeds"], finalist["metrics"]


def _card(summary: StudySummary) -> dict[str, dict[str, Any]]:
    """Return the sections of the model card."""
    seen, reads = View(summary=summary), summary.test_reads
    several = len({read["run"] for read in reads}) > 1 or any(read["forced"] for read in reads)
    against, card = seen.against_rules, dict[str, dict[str, Any]]()
    found = summary.test or {name: over.mean for name, over in seen.measured.items()}
    card[HUB] = {
        "encoder": seen.encoder,
        "corpora": {role: corpus["spec"] for role, corpus in summary.corpora.items()},
        "split": "test" if summary.test else "dev",
        "metrics": {
            name: value
            for name, value in found.items()
            if not (of_subset(name) or name.startswith("train/") or name.endswith(ERROR))
        },
    }
    if seen.decoder:
        card["Started from"] = {"encoder": seen.encoder, "decoder": seen.decoder}
    if against is not None:
        card[VERDICT] = {summary.objective: against.text}
    on_dev, on_test = f"Development set, {seen.error_kind}", f"Test set, {seen.test_kind}"
    for place, head in enumerate((on_dev, on_test, "Rules without a model"), 1):
        card[head] = {row[0]: row[place] for row in seen.metric_rows if row[place]}
    card["Readings of the test set"] = {
        read["time"]: f"{read['run']}{' (forced)' if read['forced'] else ''}"
        for read in reads
        if several
    }
    card["Corpora"] = {
        role: f"{corpus['spec']} ({corpus['rows']:,} rows, {corpus['fingerprint']})"
        for role, corpus in summary.corpora.items()
    }
    card["Lineage"] = {name: told for name, told in summary.lineage.items() if name != "chain"}
    return card
