"""What needs no cluster is checked before Ray is joined or started and a corpus is prepared."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from search_spaces import find_job
from sentune.corpora.schema import Kind
from sentune.encoders import prepare
from sentune.errors import SentuneError
from sentune.job.families import FAMILIES, make_job
from sentune.job.options import parse
from sentune.job.run import tune
from sentune.study.planning import capacity, connect

NLI = '{"gold_label": "entailment", "sentence1": "a dog runs", "sentence2": "a dog moves"}\n'


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Sound files, an empty one, and the folder of an encoder for 70 tokens at most."""
    (tmp_path / "train.jsonl").write_text(NLI)
    (tmp_path / "empty.jsonl").write_text("")
    row = "main\tmade\t2026\t{0}\t{0}.5\ta dog runs\ta dog moves {0} times\n"
    (tmp_path / "sts.csv").write_text("".join(map(row.format, range(4))))
    (tmp_path / "sts-one.csv").write_text(row.format(1))
    (tmp_path / "counts.txt").write_text("dog 3\nruns 2\n")
    (tmp_path / "vectors.txt").write_text("dog 0.5 0.25\nruns 0.25 0.5\n")
    made = prepare("builtin:tiny?layers=1&width=16&positions=70", ["a dog runs"], tmp_path)
    Path(made).rename(tmp_path / "bert")
    return tmp_path


def start(method: str, files: Path, **given: Any) -> None:
    """Start a job; a text among ``given`` has ``{}`` for the folder of the files."""
    job = find_job(method)
    tune(parse(options_in(files, given), job.defaults), job.space)


def options_in(files: Path, given: dict[str, Any]) -> dict[str, Any]:
    named = {
        name: [v.format(files) for v in value] if isinstance(value, list)
        else value.format(files) if isinstance(value, str) else value
        for name, value in given.items()
    }  # fmt: skip
    return {"storage": str(files / "studies"), "study": "early", **named}


@pytest.mark.parametrize(
    ("method", "given", "kind"),
    [
        ("simcse", {}, Kind.LABELLED_PAIRS),
        ("infersent", {}, Kind.LABELLED_PAIRS),
        ("invertible", {}, Kind.SCORED_PAIRS),
        ("intersent", {}, Kind.SCORED_PAIRS),
        ("sif", {"corpus": "text:x", "vectors": ["glove:x"]}, Kind.SCORED_PAIRS),
    ],
)
def test_a_format_of_several_kinds_of_pairs_is_read_as_the_method_is_judged(
    tmp_path: Path, method: str, given: dict[str, Any], kind: Kind
) -> None:
    file = tmp_path / "SICK.txt"
    names = ("pair_ID", "sentence_A", "sentence_B", "entailment_label", "relatedness_score",
             "entailment_AB", "entailment_BA", "SemEval_set")  # fmt: skip
    row = (
        "1",
        "a dog runs",
        "a dog moves",
        "ENTAILMENT",
        "4",
        "A_entails_B",
        "B_neutral_A",
        "TRIAL",
    )
    file.write_text("".join("\t".join(line) + "\n" for line in (names, row)))
    job = find_job(method)
    options = {"dev": [f"sick:{file}"], "storage": str(tmp_path), **given}
    (dev,) = make_job(parse(options, job.defaults), job.space).dev
    assert dev.kind is kind


class TooLate(BaseException):
    """Ray was asked for, or a corpus prepared."""


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: Any, **__: Any) -> None:
        raise TooLate

    monkeypatch.setattr(connect, "silent_head", late)
    monkeypatch.setattr(connect, "join", late)
    for family in FAMILIES.values():
        monkeypatch.setattr(family, "prepare", late)


SMALL = {"corpus": "builtin:nli?size=30", "dev": ["builtin:nli?size=30&split=dev"]}
SIF = {
    "corpus": "stsb:{}/sts.csv", "dev": ["stsb:{}/sts.csv"], "vectors": ["glove:{}/vectors.txt"],
    "allow_overlap": True, "frequencies": "{}/counts.txt",
}  # fmt: skip


@pytest.mark.parametrize("address", ["", "10.0.0.1:6379"])
@pytest.mark.parametrize(
    ("method", "given", "said"),
    [
        ("gumbel", {"corpus": "snli:{}/gone.jsonl", "dev": SMALL["dev"]}, r"gone\.jsonl"),
        ("gumbel", {"corpus": "snli:{}/empty.jsonl", "dev": SMALL["dev"]}, r"empty\.jsonl"),
        ("gumbel", {"corpus": "stsb:{}/sts.csv", "dev": SMALL["dev"]}, "kind of stsb"),
        ("gumbel", {**SMALL, "dev": ["snli:{}/gone.jsonl"]}, r"gone\.jsonl"),
        ("gumbel", {**SMALL, "test": ["snli:{}/gone.jsonl"]}, r"gone\.jsonl"),
        ("gumbel", {**SMALL, "test": ["stsb:{}/sts-one.csv"]}, "needs pairs with different sc"),
        ("gumbel", {**SMALL, "warm_start": ["nope"]}, "--warm-start: 'nope'"),
        ("gumbel", {**SMALL, "references": "text:{}/gone.txt"}, r"gone\.txt"),
        ("gumbel", {**SMALL, "objective": ["sts/spearman"]}, "--objective"),
        ("gumbel", {**SMALL, "encoder": "{}/gone"}, "--encoder.*no such folder"),
        ("gumbel", {**SMALL, "encoder": "builtin:small"}, "--encoder.*builtin:tiny"),
        ("gumbel", {**SMALL, "encoder": "{}/bert", "set": ["max_length=71"]}, "max_length.*70"),
        ("gumbel", {**SMALL, "optuna": "sqlite:///{}/gone/own.db"}, "--optuna.*no folder"),
        ("gumbel", {**SMALL, "storage": "{}/sts.csv/studies"}, "--storage"),
        ("gumbel", {**SMALL, "tracking": "none"}, "--tracking.*'none'.*write http://"),
        ("intersent", {"decoder": "builtin:small"}, "--decoder.*builtin:tiny"),
        ("intersent", {"encoder": "{}/gone"}, "--encoder.*no such folder"),
        ("invertible", {"vectors": "glove:{}/gone.txt"}, r"gone\.txt"),
        ("invertible", {"vectors": "builtin:glove"}, "builtin:ppmi"),
        ("sif", {**SIF, "vectors": ["glove:{}/gone.txt"]}, r"gone\.txt"),
        ("sif", {**SIF, "frequencies": "{}/gone.txt"}, r"gone\.txt"),
        ("sif", {**SIF, "frequencies": None}, "--frequencies.*wordfreq:en.*variant=average"),
        ("sif", {**SIF, "corpus": "text:{}/gone.txt"}, r"gone\.txt"),
        ("sif", {**SIF, "dev": [*SIF["dev"], SMALL["dev"][0]]}, "--dev.*scored pairs"),
    ],
)
@pytest.mark.usefixtures("nothing_starts")
def test_what_will_not_do_is_refused_before_ray_and_corpora(
    method: str,
    given: dict[str, Any],
    said: str,
    address: str,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(SentuneError, match=f"(?s){said}"):
        start(method, files, **given)
    assert not (files / "studies").exists()


@pytest.mark.parametrize("searched", [False, True])
def test_a_readout_beyond_the_word_vectors_is_refused_before_ray(
    files: Path, monkeypatch: pytest.MonkeyPatch, searched: bool
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(connect, "silent_head", lambda: pytest.fail("Ray was asked for"))
    said = r"readout components: \[2\].*below 2, the width of the word vectors glove:.*vectors.txt"
    with pytest.raises(SentuneError, match=said):
        start("sif", files, **SIF, set=["components=2"], search_readouts=searched)


def test_the_share_of_known_words_counts_both_sentences_of_a_pair(files: Path) -> None:
    found, text = find_job("sif"), io.StringIO()
    options = parse(options_in(files, SIF), found.defaults)
    make_job(options, found.space).prepare(Console(file=text, width=200))
    assert "2 words, 37.5% of the words in dev" in text.getvalue()  # 2 of 3, and 1 of 5


def test_a_budget_below_the_largest_batch_is_a_warning(tmp_path: Path) -> None:
    found, text = find_job("gumbel"), io.StringIO()
    given = {**SMALL, "corpus": "builtin:nli?size=600", "max_examples": 100}
    options = parse({**given, "storage": str(tmp_path)}, found.defaults)
    make_job(options, found.space).prepare(Console(file=text, width=200))
    assert "--max-examples 100 is less than a batch of 512" in text.getvalue()


@pytest.mark.usefixtures("nothing_starts")
@pytest.mark.parametrize("method", ["gumbel", "intersent", "invertible", "sif"])
@pytest.mark.parametrize("address", ["", "10.0.0.1:6379"])
def test_a_sound_job_goes_on(
    method: str, address: str, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    given = {"sif": SIF, "gumbel": {**SMALL, "encoder": "{}/bert"}}.get(method, {})
    with pytest.raises(TooLate):
        start(method, files, **given)


@pytest.mark.usefixtures("nothing_starts")
def test_without_a_cluster_this_machine_has_to_hold_a_trial(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    machine = capacity.Node(cpus=4.0, gpus=1.0)
    fixed = capacity.Capacity.fixed(machine)
    monkeypatch.setattr(capacity, "available", lambda: fixed)
    with pytest.raises(SentuneError, match=r"--gpus-per-worker.*the largest machine has 1 GPUs"):
        start("gumbel", files, **SMALL, gpus_per_worker=2)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")  # it may have more
    with pytest.raises(TooLate):
        start("gumbel", files, **SMALL, gpus_per_worker=2)


@pytest.mark.usefixtures("nothing_starts")
def test_checkpoints_of_a_known_encoder_have_to_fit_on_the_disk(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sentune.io import atomic

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(
        atomic.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 100})()
    )
    with pytest.raises(SentuneError, match=r"--storage.*checkpoints of .* take up to"):
        start("gumbel", files, **SMALL, encoder="{}/bert")
