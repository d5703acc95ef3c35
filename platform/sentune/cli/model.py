"""``sentune encode``, ``index``, ``search``, ``interpret``, ``serve`` and ``push``."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.progress import Progress
from rich.table import Column
from rich.text import Text
from typer import Argument, Option

from sentune.cli.options import BatchSize, Device, Model, ReferenceCorpus, TunedModel, check_port
from sentune.errors import InvalidValue, SentuneError, first_line
from sentune.formatting import counted, percent
from sentune.terminal import Terminal, number_column, plain_table, print_line, say, screen

if TYPE_CHECKING:
    from sentune.embedder.interpret import Interpreted

NEAREST = "nearest other: similarity of an overlap to the most similar other one shown, 0 to 1."
ROUTES = ("/embeddings", "/entails", "/similarity", "/direction", "/health")

Source = Annotated[Path, Argument(metavar="IN.txt", help="One sentence per line, UTF-8.")]


def encode(
    model: Model,
    source: Source,
    out: Annotated[Path, Argument(metavar="OUT.parquet", help="Columns text, embedding.")],
    batch_size: BatchSize = 64,
    device: Device = None,
) -> None:
    """Encode the sentences of a text file; empty lines are skipped."""
    from sentune.embedder.embedder import Embedder
    from sentune.embedder.index import write_embeddings
    from sentune.io.atomic import disk_faults

    if out.suffix != ".parquet":
        raise InvalidValue("OUT", str(out), "end it in .parquet")
    embedder = Embedder.load(model, device)
    with disk_faults(out, option="OUT.parquet"), _bar(source) as advance:
        written, empty = write_embeddings(
            embedder, source, out, batch_size=batch_size, advance=advance
        )
    _done(out, written, empty)


def index(
    model: Model,
    source: Source,
    out: Annotated[Path, Argument(metavar="INDEX", help="Folder to write.")],
    factory: Annotated[
        str,
        Option(
            help="FAISS index, such as HNSW32 or IVF1024,Flat, for models of points; needs the "
            "extra 'search'. Default: exact search, for all models."
        ),
    ] = "",
    batch_size: BatchSize = 64,
    device: Device = None,
) -> None:
    """Encode the sentences of a text file into an index for `sentune search`."""
    from sentune.embedder.embedder import Embedder
    from sentune.embedder.index import SentenceIndex
    from sentune.io.atomic import disk_faults

    embedder = Embedder.load(model, device)
    with disk_faults(out, option="INDEX"), _bar(source) as advance:
        written, empty = SentenceIndex.build(
            embedder, source, out, factory=factory, batch_size=batch_size, advance=advance
        )
    _done(out, written, empty)


def search(
    model: Model,
    folder: Annotated[Path, Argument(metavar="INDEX", help="Folder written by `sentune index`.")],
    queries: Annotated[list[str], Argument(metavar="SENTENCE...", help="One or more queries.")],
    k: Annotated[int, Option("-k", min=1, help="Number of sentences to show.")] = 5,
    by: Annotated[
        str,
        Option(
            metavar="similarity|entailed|entailing",
            help="entailed: sentences that SENTENCE entails; entailing: sentences that entail it. "
            "Both need a model of boxes or Gaussians.",
        ),
    ] = "similarity",
    device: Device = None,
) -> None:
    """Search an index for the sentences that are nearest to each SENTENCE by the model's score."""
    from sentune.embedder.embedder import Embedder

    for query in queries:
        _check_sentence(query)
    found = Embedder.load(model, device).search(queries, folder, k=k, by=by)
    for query, hits in zip(queries, found, strict=True):
        table = plain_table("score", query)
        for hit in hits:
            table.add_row(f"{hit.score:.4f}", hit.sentence)
        screen().print(table)


def _check_sentence(sentence: str) -> None:
    if not sentence.strip():
        raise InvalidValue("SENTENCE", sentence.strip(), "give a sentence that is not empty")


@contextmanager
def _bar(source: Path) -> Iterator[Callable[[int], object]]:
    """Show a progress bar on a terminal; yield a function that advances it by bytes read."""
    console = Terminal(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        size = source.stat().st_size if source.is_file() else None
        bar = progress.add_task("Encoding", total=size)
        yield lambda size: progress.advance(bar, size)


def _done(out: Path, written: int, empty: int) -> None:
    left = f", {counted(empty, 'empty line')} skipped" if empty else ""
    say(f"{out}: {counted(written, 'sentence')}{left}")


def interpret(
    model: Model,
    sentence: Annotated[str, Argument(help="The sentence to interpret, in quotes.")],
    k: Annotated[int, Option("-k", min=1, help="Largest number of interpretations.")] = 5,
    references: ReferenceCorpus = None,
    alpha_1: Annotated[
        float | None,
        Option(
            help="Lower bound on the share of the sentence's box that an overlap covers; default: "
            "the model's, else the value that leaves the best 3 k references."
        ),
    ] = None,
    alpha_2: Annotated[
        float | None, Option(help="Upper bound on that share; default: the model's, else 1.")
    ] = None,
    device: Device = None,
) -> None:
    """Show the most distinct interpretations of a sentence. Needs a model of boxes."""
    from sentune.corpora.formats import read
    from sentune.corpora.schema import Kind
    from sentune.embedder.embedder import Embedder
    from sentune.embedder.interpret import interpret as run

    _check_sentence(sentence)
    given = None
    if references is not None:
        given = read(references, Kind.SENTENCES).table["text"].to_pylist()
    found = run(Embedder.load(model, device), sentence, k, given, alpha_1, alpha_2)
    console = Terminal()
    if found.interpretations:
        columns = (
            Column("overlap with", overflow="fold"),
            number_column("coverage"),
            number_column("nearest other"),
        )
        table = plain_table(*columns, title=Text(sentence), header_style="dim")
        for one in found.interpretations:
            near = "" if math.isnan(one.similarity) else f"{one.similarity:.2g}"
            share = percent(one.coverage)
            if one.coverage < 0.001:
                share = f"{100 * one.coverage:.2g} %"
            table.add_row(Text(one.reference), share, near)
        console.print(table)
    print_line(console, _references_in_question(found))


def _references_in_question(found: Interpreted) -> str:
    """Return how many references are between the bounds, and a fix if there is none."""
    bounds = f"alpha_1 {found.alpha_1:.4g} and alpha_2 {found.alpha_2:.4g}"
    text = f"{found.between:,} of {found.references:,} references have a coverage between {bounds}"
    if found.between:
        return f"{text}.\n{NEAREST}"
    if found.largest is None:
        return f"{text}; none is below alpha_2: give a larger --alpha-2."
    return f"{text}; the largest below alpha_2 is {found.largest:.4g}: give a lower --alpha-1."


def serve(
    model: TunedModel,
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(min=1, max=65535, help="Port to listen on.")] = 8000,
    replicas: Annotated[int, Option(min=1, help="Number of processes with the model.")] = 1,
    max_batch: Annotated[int, Option(min=1, help="Largest number of requests per batch.")] = 32,
    gpus: Annotated[
        float | None,
        Option(min=0, help="GPUs per replica; default: an equal share of all GPUs, at most one."),
    ] = None,
) -> None:
    """Serve embeddings, entailment, similarity and direction over HTTP, with Ray Serve.

    The server has no authentication: keep it on 127.0.0.1, or behind a proxy that has.
    """
    from sentune.embedder.load import folder_of
    from sentune.training.model import check_model, read_settings

    folder = folder_of(model).resolve()
    read_settings(folder)
    check_model(folder)
    try:
        from sentune import serving
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "sentune":
            raise
        fix = "Ray Serve is not installed: pip install 'sentune[serve]'"
        raise SentuneError(fix) from error
    check_port(host, port)
    from sentune.study.planning.connect import connected

    # Serve 2.60 kills a proxy that has not started within 5 s, and then fails to start
    os.environ.setdefault("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", "60")
    endings = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        endings.append(signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.default_int_handler)  # also ends a start
    with (
        connected(),
        serving.running(
            str(folder), host=host, port=port, replicas=replicas, max_batch=max_batch, gpus=gpus
        ),
    ):
        say(f"http://{host}:{port}: {', '.join(ROUTES)}; /docs describes them (Ctrl-C stops it)")
        over = threading.Event()
        for ending in endings:
            signal.signal(ending, lambda *_: over.set())
        over.wait()


def push(
    model: TunedModel,
    repo: Annotated[
        str, Argument(metavar="OWNER/NAME", help="Repository on the Hub.", show_default=False)
    ],
    private: Annotated[bool, Option("--private", help="Make a new repository private.")] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Check the model and list its files, without uploading.")
    ] = False,
) -> None:
    """Upload a model with its card to the Hugging Face Hub.

    The files are verified against their checksums first. The token is that of `hf auth login` or
    HF_TOKEN.
    """
    from huggingface_hub import HfApi, ModelCard
    from huggingface_hub.errors import HfHubHTTPError
    from yaml import YAMLError

    from sentune.embedder.load import folder_of
    from sentune.training.model import CARD_FILE, check_model, read_settings
    from sentune.training.model_card import HUB_NAME

    if not HUB_NAME.fullmatch(repo):
        raise InvalidValue("OWNER/NAME", repo, "give the repository as in ann/boxes")
    folder = folder_of(model)
    method = read_settings(folder)["method"]
    check_model(folder)
    sizes = {path: path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()}
    table = plain_table("file", "kB")
    for path, size in sizes.items():
        table.add_row(str(path.relative_to(folder)), f"{size / 1000:,.1f}")
    screen().print(table)
    card = folder / CARD_FILE
    try:
        licensed = card.is_file() and ModelCard.load(card).data.to_dict().get("license")
    except (ValueError, YAMLError) as error:
        fix = f"its metadata cannot be read: {first_line(error)}"
        raise InvalidValue("model", str(card), fix) from error
    if not licensed:
        line = f"the model has no licence: add `license: NAME` to the metadata at the top of {card}"
        print_line(Terminal(stderr=True), line, "yellow")
    what = f"{len(sizes)} files, {sum(sizes.values()) / 1e6:,.1f} MB"
    if dry_run:
        say(f"{what} would be uploaded to https://huggingface.co/{repo}; all checksums match")
        return
    api = HfApi()
    try:
        api.create_repo(repo, private=private, exist_ok=True)
        done = api.upload_folder(
            repo_id=repo, folder_path=Path(folder), commit_message=f"{method} from sentune"
        )
    except (HfHubHTTPError, OSError, ValueError) as error:  # ValueError: wrong card metadata
        told = " ".join(str(error).split())
        raise SentuneError(f"{repo} was not pushed: {told}") from error
    say(f"{what}: {done.commit_url}")
