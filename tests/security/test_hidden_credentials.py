"""A password in every URI that a job takes: it is used, and written nowhere."""

from __future__ import annotations

import base64
import io
import threading
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from sentune.credentials import without_credentials
from sentune.errors import CorpusError, InvalidValue, SentuneError, StudyConflict, TrialFailed
from sentune.job.artifacts import write_page
from sentune.job.families import make_job
from sentune.job.options import ClosedFormOptions, JobOptions, parse
from sentune.job.study_files import describe, start_summary
from sentune.job.terminal_report import next_commands, print_commands, report
from sentune.job.test_set import TestReads, Winner
from sentune.records import Spent, TrialRecord, TrialState
from sentune.report import build
from sentune.report.render import to_html, to_markdown
from sentune.report.view import view
from sentune.study.planning.checks import check_database, check_writable, tracking_silence
from sentune.study.samplers.registry import find_own
from sentune.study.space.objectives import Objective
from sentune.study.space.space import Choice, SearchSpace
from sentune.study.store.study_index import StudyPlace
from sentune.study.store.study_view import StoredRun, StudySnapshot
from sentune.summary import write_summary
from sentune.tasks import read_judged
from sentune.terminal import Terminal
from sentune.tracking import Tracker
from tests.report.studies import finished

PASSWORD = "hunter2-correct/horse"
"""With a slash, as the secret keys of AWS have."""

ENCODED = "hunter2-correct"
SPACE = SearchSpace(method="sif", objective="sts/pearson", settings={"a": Choice(1e-3, 1e-4)})


class Guarded(SimpleHTTPRequestHandler):
    """Gives files to whoever has the password."""

    given: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        wanted = base64.b64encode(f"ann:{ENCODED}".encode()).decode()
        if self.headers.get("Authorization") != f"Basic {wanted}":
            self.send_error(401)
            return
        self.given.append(self.path)
        super().do_GET()

    do_HEAD = do_GET  # noqa: N815 -- the server looks for this name

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A web server's address, user and password in it."""
    folder = tmp_path_factory.mktemp("www")
    dice = np.random.default_rng(0)
    words = ("dog", "cat", "runs", "sleeps", "big", "red")
    lines = (f"{w} {' '.join(f'{x:.3f}' for x in dice.normal(size=4))}\n" for w in words)
    (folder / "vectors.txt").write_text("".join(lines))
    rows = (
        f"main\tx\t2012\t{n}\t{n % 6}\tthe {words[n % 6]} runs\tthe big {words[n % 5]}\n"
        for n in range(40)
    )
    (folder / "pairs.csv").write_text("".join(rows))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Guarded, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://ann:{ENCODED}@127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def written(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def test_a_job_writes_and_says_no_password(place: str, tmp_path: Path) -> None:
    """Everything of a job but the training: what it reads, says, tracks and leaves."""
    storage = tmp_path / "studies"
    options = ClosedFormOptions(
        study="doors", storage=str(storage), corpus=f"stsb:{place}/pairs.csv",
        dev=(f"stsb:{place}/pairs.csv",), test=(f"stsb:{place}/pairs.csv",),
        vectors=(f"glove:{place}/vectors.txt", f"glove:{place}/vectors.txt?b=1"),
        optuna=f"postgresql://ann:{PASSWORD}@127.0.0.1:1/optuna",
        tracking=f"http://ann:{ENCODED}@127.0.0.1:1",
    )  # fmt: skip
    said = io.StringIO()
    console = Terminal(file=said, width=200)
    job = make_job(options, SPACE)
    job.prepare(console)
    assert "/pairs.csv" in Guarded.given
    assert "/vectors.txt" in Guarded.given
    summary = start_summary(job)
    trial = TrialRecord(
        id=0,
        state=TrialState.FAILED,
        settings={"a": 1e-3, "vectors": job.space.settings["vectors"].values[0]},  # type: ignore[union-attr]
        reason=f"cannot read {place}/pairs.csv",
        notes=[f"s3://AKIA0:{PASSWORD}@bucket/x was damaged"],
    )
    summary.trials, summary.spent, summary.state = [trial], Spent(trials=1), "failed"
    summary.reason = f"no answer from {options.optuna}"
    tracker = Tracker("doors", str(storage), tracking_uri=options.tracking)
    place = StudyPlace(name="doors", folder=str(storage / "doors"), url="")
    run = StoredRun(trial=0, record=trial, ended=1)
    seen = StudySnapshot(place=place, objectives=(Objective(job.space.objective),), runs=(run,))
    tracker.start(lambda: seen, summary)
    describe(job.config, options, job.space, None)
    reads = TestReads(job.config.folder)
    reads.begin(Winner(run="0000", trial=0), options.test, force=False)
    reads.identify([corpus.fingerprint for corpus in map(read_judged, options.test)])
    write_summary(summary, job.config.folder)
    write_page(summary, str(storage))
    tracker.update(summary)
    tracker.close(0.1)
    report(summary, console, varied=tuple(job.space.settings))
    print_commands(console, next_commands(summary, job.config, options))
    files = written(tmp_path)
    assert {"studies/doors/summary.json", "studies/doors/report.html"} <= files.keys()
    assert any(name.endswith("table.json") for name in files)
    assert [name for name, content in files.items() if b"hunter2" in content] == []
    assert "hunter2" not in said.getvalue()
    assert "127.0.0.1" in said.getvalue()


def test_the_same_test_corpora_are_the_same_without_their_password(tmp_path: Path) -> None:
    specs = ["snli:http://ann:hunter2@host/test.jsonl"]
    TestReads(str(tmp_path)).begin(Winner(run="0000", trial=0), specs, force=False)
    TestReads(str(tmp_path)).begin(Winner(run="0000", trial=0), specs, force=False)
    with pytest.raises(StudyConflict) as refused:
        TestReads(str(tmp_path)).begin(Winner(run="0001", trial=1), specs, force=False)
    assert "hunter2" not in str(refused.value)


URIS = (
    f"s3://AKIA0:{PASSWORD}@bucket/studies", f"http://ann:{ENCODED}@host:5000/x",
    f"postgresql+psycopg2://ann:{PASSWORD}@db:5432/optuna", f"https://{ENCODED}@host/x",
    f"https://host/x?token={ENCODED}&a=1", f"postgresql:///db?user=a&password={ENCODED}",
    f"postgresql://db/x?sslpassword={ENCODED}", f"mysql://ann:it's-{ENCODED}@db/optuna",
)  # fmt: skip


@pytest.mark.parametrize("uri", URIS)
def test_no_error_tells_it(uri: str) -> None:
    errors: list[SentuneError] = [
        InvalidValue("--storage", uri, f"nothing answers at {uri}; start it"),
        InvalidValue("--corpus", (uri, uri), "x"),
        CorpusError(uri, f"cannot be read: 401, url={uri!r}", line=3),
        TrialFailed(f"lost {uri}"),
        StudyConflict(f"study in {uri}: x"),
    ]
    for error in errors:
        assert "hunter2" not in str(error)
        assert "hunter2" not in repr(error)


@pytest.mark.parametrize("uri", [uri for uri in URIS if uri.startswith(("postgresql", "mysql"))])
def test_a_database_that_is_not_there_is_named_without_it(uri: str) -> None:
    address = uri.replace("db:5432", "db").replace("db", "127.0.0.1:1", 1)
    with pytest.raises(SentuneError) as refused:
        check_database(address)
    assert "hunter2" not in str(refused.value)


def test_a_storage_and_a_server_that_are_not_there_are_named_without_it() -> None:
    with pytest.raises(SentuneError) as refused:
        check_writable(f"http://ann:{ENCODED}@127.0.0.1:1/studies")
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in tracking_silence(f"http://ann:{ENCODED}@127.0.0.1:1")


@pytest.mark.parametrize("option", ["study", "fork", "workers", "objective", "trials"])
def test_an_option_in_the_wrong_place_is_named_without_it(option: str) -> None:
    given: Any = URIS[0] if option != "objective" else (URIS[0],)
    with pytest.raises(InvalidValue) as refused:
        parse({option: given}, JobOptions())
    assert "hunter2" not in str(refused.value)


def test_a_sampler_that_is_none_is_named_without_it() -> None:
    with pytest.raises(InvalidValue) as refused:
        find_own(URIS[0])
    assert "--sampler" in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_report_of_an_older_study_shows_none() -> None:
    """Its summary may have been written before this was looked after."""
    study = finished()
    study.reason = study.verdict = URIS[0]
    study.lineage["command"] = f"tune.py --optuna {URIS[2]} --api-key {ENCODED}"
    study.corpora["corpus"]["spec"] = f"snli:{URIS[1]}"
    study.trials[0].reason = URIS[5]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sentune.report.view.importance", lambda summary: None)
        made = build(view(SimpleNamespace(**vars(study)) and study, study.trials))
    assert "hunter2" not in to_html(made) + to_markdown(made)


@pytest.mark.parametrize(
    ("value", "clean"),
    [
        (f"s3://AKIA0:{PASSWORD}@bucket/a@b", "s3://b"),
        ("http://host:5000/a@b", "http://host:5000/a@b"),
        ("see http://host:80, or x@y", "see http://host:80, or x@y"),
        ("s3://bucket/a@b.jsonl", "s3://bucket/a@b.jsonl"),
        ("PGPASSWORD=x job.py", "PGPASSWORD=*** job.py"),
        ({"password": "x", "n": {"api_key": "y", "tokenizer": "bert", "max_tokens": 5}},
         {"password": "***", "n": {"api_key": "***", "tokenizer": "bert", "max_tokens": 5}}),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("{'password': 'x', 'host': 'y'}", "{'password': '***', 'host': 'y'}"),
    ],
)  # fmt: skip
def test_what_goes_and_what_stays(value: object, clean: object) -> None:
    assert without_credentials(value) == clean


def test_a_summary_stays_what_it_was_without_any() -> None:
    told = asdict(finished())
    assert without_credentials(told) == told
