"""Verifies a study's inputs and its model by recomputing checksums.

The model's manifest records the fingerprints of the corpora and the checksums of token manifests
and of the checkpoint's ``progress.json``. ``summary.json`` records the manifest's own checksum, and
its metrics are compared to the study's store.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from sentune.corpora.formats import open_rows
from sentune.corpora.formats.arrow import MANIFEST as PREPARED
from sentune.corpora.formats.open import parsed_spec
from sentune.corpora.schema import Fingerprint, Kind
from sentune.corpora.tokens import META
from sentune.errors import SentuneError, first_line
from sentune.formatting import counted, differences
from sentune.io.atomic import read_document
from sentune.io.checksums import changed, document_checksum
from sentune.io.folders import checked_manifest
from sentune.io.object_store import asked, files_at, names_in
from sentune.job.corpora import identity_of
from sentune.job.study_files import MODEL
from sentune.records import FinalistRecord, Spread, TrialState
from sentune.study.space.objectives import ranked, ranked_finalists
from sentune.study.store import JOURNAL
from sentune.study.store.study_index import DESCRIPTION, SUMMARY, StudyPlace
from sentune.study.store.study_view import StudySnapshot, StudyView
from sentune.summary import as_written, read_summary
from sentune.tasks import of_task, task_and_corpus
from sentune.training.checkpoint_storage import storage_of
from sentune.training.checkpoints import CheckpointStore, name_of
from sentune.training.model import MANIFEST
from sentune.training.trial import LIVE, SETTINGS

DAMAGE = (SentuneError, OSError, ValueError, LookupError, TypeError)
"""Exceptions that reading a damaged file may raise."""


class Outcome(StrEnum):
    """Result of a check; ``ABSENT``: the file was deleted, or is on another machine."""

    HOLDS = "holds"
    BROKEN = "broken"
    ABSENT = "not here"


@dataclass(frozen=True, kw_only=True)
class Check:
    """The result of one check.

    Attributes:
        part: kind of data, such as ``tokens``.
        place: path or specification of the data.
        outcome: the result.
        found: what was compared; if it is broken, the file and both values.
    """

    part: str
    place: str
    outcome: Outcome
    found: str


def verify_study(place: StudyPlace) -> Iterator[Check]:
    """Yield the checks of a study, from its corpora to its summary, without writing anything."""
    folder = place.folder
    if place.trouble:
        yield _check("study", DESCRIPTION, place.trouble)
    known, fault = dict[str, Any](), ""
    try:
        known = read_summary(folder)
    except FileNotFoundError:
        pass
    except DAMAGE as error:
        fault = first_line(error)
    yield from _corpora(known.get("corpora", {}), place.description)
    chain = known.get("lineage", {}).get("chain", {})
    yield from _derived(chain.get("derived", {}), folder.rpartition("/")[0])
    try:
        study = StudyView(place).snapshot(driven=True)
    except Exception as error:  # noqa: BLE001  # each kind of database has errors of its own
        yield _check("trials", place.url, first_line(error))
        return
    ended = f"{study.ended:,} of {study.started:,} ended"
    yield _check("trials", place.url, "", ended) if place.url else _absent("trials", JOURNAL)
    yield from _checkpoints(folder, study)
    if not known:
        yield _check("summary", SUMMARY, fault) if fault else _absent("summary", SUMMARY)
        return
    if known["model"] is not None:
        yield from verify_model(f"{folder}/{MODEL}", whole=False)
    fault = _against_store(known, study) if place.url else ""
    fault = fault or _against_model(known, folder)
    trials, finalists = len(known["trials"]), len(known["finalists"])
    compared = f"{counted(trials, 'trial')}, {counted(finalists, 'finalist')}, test figures"
    yield _check("summary", SUMMARY, fault, compared)


def verify_model(folder: str, *, whole: bool = True) -> Iterator[Check]:
    """Yield the checks of a model, of its checkpoint, and of the tokens it was trained on.

    Args:
        folder: of the model, a path or URI.
        whole: whether the tokens are checked.
    """
    try:
        manifest = _manifest(folder, MANIFEST)
    except DAMAGE as error:
        yield _check("model", folder, first_line(error))
        return
    if not manifest:
        why = f"{MANIFEST} is missing, as in models of version 0.2.0; fork the study to get one"
        yield _check("model", folder, why)
        return
    above, chain = folder.rpartition("/")[0], manifest.get("chain", {})
    if whole:
        yield from _derived(chain.get("derived", {}), above.rpartition("/")[0])
    if link := chain.get("checkpoint"):
        yield _link(link, f"{above}/{link['folder']}")
    fault, files = changed(folder, manifest["files"]), counted(len(manifest["files"]), "file")
    yield _check("model", folder, fault, f"{files} as in {MANIFEST}")


def _corpora(corpora: Mapping[str, Any], description: Mapping[str, Any]) -> Iterator[Check]:
    """Read each corpus again; relative paths are relative to where the study was started."""
    start, limit = description.get("folder", ""), description.get("options", {}).get("limit")
    there = bool(start) and Path(start).is_dir()
    with contextlib.chdir(start) if there else contextlib.nullcontext():
        for role, corpus in corpora.items():
            yield _corpus(role, corpus, limit if role.startswith("corpus") else None)


def _corpus(role: str, corpus: Mapping[str, Any], limit: int | None) -> Check:
    spec, recorded, kind = corpus["spec"], corpus["fingerprint"], Kind(corpus["kind"])
    try:
        task, plain = task_and_corpus(spec)
        plain = of_task(plain, task)
        source = parsed_spec(plain)
        files, root = files_at(source.path)
        if source.format != "builtin" and not asked(source.path, lambda: files.exists(root)):
            return _absent(role, spec)
        state = Fingerprint(kind)
        # bad rows are not part of the fingerprint
        for batch in open_rows(plain, kind, limit=limit, bad_rows="100%").batches:
            state.update(batch)
    except DAMAGE as error:
        return _check(role, spec, first_line(error))
    fault = _apart("its fingerprint is", state.hexdigest(), recorded)
    return _check(role, spec, fault, f"{corpus['rows']:,} rows, fingerprint {recorded[:12]}")


def _derived(derived: Mapping[str, str], storage: str) -> Iterator[Check]:
    """Check folders of the cache; relative paths are relative to the storage."""
    for named, recorded in derived.items():
        folder = named if named.startswith("/") or "://" in named else f"{storage}/{named}"
        part, file = ("tokens", META) if "/tokens/" in named else ("prepared", PREPARED)
        try:
            if not (manifest := _manifest(folder, file)):
                yield _absent(part, named)
                continue
            fault = _apart(f"checksum of {file} is", manifest["checksum"], recorded)
            fault = fault or changed(folder, manifest["files"])
        except DAMAGE as error:
            fault, manifest = first_line(error), {"files": {}}
        yield _check(part, named, fault, counted(len(manifest["files"]), "file"))


def _checkpoints(folder: str, study: StudySnapshot) -> Iterator[Check]:
    """Check all stored checkpoints, and that each belongs to the run of its folder."""
    settings = {run.name: run.record.settings for run in (*study.runs, *study.finals)}
    files, root = files_at(folder)
    for run in sorted(names_in(files, f"{root}/trials")):
        directory = f"{folder}/trials/{run}"
        faults, place = CheckpointStore(directory).faults(), storage_of(directory)
        for name, fault in faults.items():
            if not fault and run in settings:
                identity = json.loads(place.read(name)).get("identity") or {}
                faults[name] = _other_run(identity, settings[run], study.fingerprint)
        wrong = (f"{name}: {fault}" for name, fault in faults.items() if fault)
        if faults:
            yield _check("checkpoints", f"trials/{run}", next(wrong, ""), ", ".join(faults))


def _other_run(
    identity: Mapping[str, Any], settings: Mapping[str, Any], fingerprint: Mapping[str, Any]
) -> str:
    """Return how a checkpoint's identity differs from the store; empty if it does not.

    Checkpoints of earlier versions have no identity.
    """
    parts = [part for part in ("corpora", "encoder", "words", "code") if part in identity]
    was = {**{part: document_checksum(fingerprint.get(part)) for part in parts}, SETTINGS: settings}
    told = {**identity.get(SETTINGS, {}), **identity.get(LIVE, {})}
    now = {**{part: identity[part] for part in parts}, SETTINGS: told}
    found = next(differences(json.loads(json.dumps(was)), now), "") if identity else ""
    return f"it is of another run ({found})" if found else ""


def _link(link: Mapping[str, Any], directory: str) -> Check:
    """Check that a model's checkpoint is the one that its manifest names."""
    name = name_of(link["examples"])
    where, place = f"{link['folder']}/{name}", storage_of(directory)
    if not place.has(name):
        return _absent("checkpoint", where)
    fault = CheckpointStore(directory).faults().get(name, "")
    if not fault:
        found = json.loads(place.read(name)).get("checksum", "")
        fault = _apart("its checksum is", found, link["checksum"])
    return _check("checkpoint", where, fault, f"the one that {MODEL}/{MANIFEST} names")


def _against_store(known: Mapping[str, Any], study: StudySnapshot) -> str:
    """Return how a summary differs from the study's store; empty if it does not."""
    corpora = study.fingerprint.get("corpora", {})
    read = {role: identity_of(known["corpora"].get(role, {})) for role in corpora}
    if found := next(differences(corpora, read, "corpora"), ""):
        return f"it differs from the store: {found}"
    stored = {trial.id: json.loads(json.dumps(as_written(asdict(trial)))) for trial in study.trials}
    for trial in known["trials"]:
        was = stored.get(trial["id"], {})
        differing = differences({name: was.get(name) for name in trial}, trial)
        # a running trial may have continued since
        if trial["state"] != TrialState.RUNNING and (found := next(differing, "")):
            return f"trial {trial['id']} differs from the store: {found}"
    for finalist in known["finalists"]:
        if found := _finalist(finalist, study):
            return f"finalist {finalist['trial']} differs from the store: {found}"
    return _winner(known, study)


def _finalist(finalist: Mapping[str, Any], study: StudySnapshot) -> str:
    """Return the first metric whose values, mean or deviation differ from the stored runs.

    Empty if there is none.
    """
    runs = {
        run.seed: run.record
        for run in study.finals
        if run.trial == finalist["trial"] and run.record.state is TrialState.COMPLETE
    }
    named = {seed: runs[seed] for seed in finalist["seeds"] if seed in runs}
    stored = FinalistRecord.of(named, trial=finalist["trial"], settings={}).metrics
    for name, over in finalist["metrics"].items():
        found = stored.get(name)
        if found is None or found.values != over["values"]:
            return str(name)
        told = [over["mean"], over["sd"]]
        if not np.allclose([found.mean, found.sd], told, rtol=1e-9, atol=1e-12):
            return str(name)
    return ""


def _winner(known: Mapping[str, Any], study: StudySnapshot) -> str:
    """Return why a summary's winner or best trial is wrong by the store; empty if it is not."""
    finalists = [
        FinalistRecord(**{**one, "metrics": {n: Spread(**s) for n, s in one["metrics"].items()}})
        for one in known["finalists"]
    ]
    order = ranked_finalists(finalists, study.objective, study.constraints)
    metric = study.objective.metric
    if order and order[0] is not finalists[known["winner"]]:
        return f"winner: finalist {known['winner']} does not have the best {metric}"
    told = {trial["id"] for trial in known["trials"]}
    trials = [trial for trial in study.trials if trial.id in told]
    right = next((trial.id for trial in ranked(trials, study.objectives)), None)
    right = order[0].trial if order else right
    if known.get("best") in (None, right):
        return ""
    return f"best: trial {known['best']} in the summary, trial {right} by the store"


def _against_model(known: Mapping[str, Any], folder: str) -> str:
    """Return how a summary differs from the manifest of its model; empty if it does not."""
    try:
        manifest = _manifest(f"{folder}/{MODEL}", MANIFEST) if known["model"] is not None else {}
    except DAMAGE:  # ``verify_model`` reports it
        return ""
    if not manifest:
        return ""
    named = known.get("lineage", {}).get("chain", {}).get("model", "")
    if there := _apart(f"checksum of {MODEL}/{MANIFEST} is", manifest["checksum"], named):
        return f"{there}, which {SUMMARY} names"
    read = {role: corpus["fingerprint"] for role, corpus in known["corpora"].items()}
    was = {"test": manifest["test"], "corpora": manifest["chain"]["corpora"]}
    return next(differences(was, {"test": known["test"], "corpora": read}), "")


def _manifest(folder: str, name: str) -> dict[str, Any]:
    """Return a manifest of a folder or URI; empty if there is none.

    Raises:
        ValueError: it is damaged.
    """
    try:
        text = read_document(folder, name)
        return checked_manifest(text.encode()) if text is not None else {}
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _check(part: str, place: str, fault: str, found: str = "") -> Check:
    """Return a check that is broken if there is a fault."""
    outcome = Outcome.BROKEN if fault else Outcome.HOLDS
    return Check(part=part, place=place, outcome=outcome, found=fault or found)


def _absent(part: str, place: str) -> Check:
    return Check(part=part, place=place, outcome=Outcome.ABSENT, found=Outcome.ABSENT.value)


def _apart(what: str, found: str, recorded: str) -> str:
    """Return how a checksum differs from the recorded one; empty if it does not."""
    if found == recorded:
        return ""
    return f"{what} {found[:12] or 'missing'}, not {recorded[:12] or 'recorded'}"
