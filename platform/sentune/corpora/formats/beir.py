"""The format ``beir``: a folder in BEIR's layout for retrieval (Thakur et al. 2021).

Each line of ``corpus.jsonl`` has ``_id``, ``title`` and ``text`` of a passage, each line of
``queries.jsonl`` has ``_id`` and ``text``. Both may be ``.gz``. ``qrels/SPLIT.tsv`` has the header
query-id, corpus-id, score.
"""

from __future__ import annotations

from collections.abc import Iterator

from sentune.corpora.formats import select
from sentune.corpora.formats.reading import BadFieldError, Log, Row, names_in, number, sentence
from sentune.corpora.formats.spec import BAD_ROWS, Spec, parse
from sentune.corpora.schema import SPLITS
from sentune.errors import CorpusError

OPTIONS = {"split": "train, dev or test: whose judgements to read; default test"}
_HEADER = ["query-id", "corpus-id", "score"]


def queries(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield queries with the ids of their relevant passages, which have a score above 0.

    Queries and ids are in the order of their files. The log counts ``judged_irrelevant``
    (judgements with a score of 0 or less), ``without_relevant`` (queries without a relevant passage
    in the split, which are dropped) and ``judged_unknown`` (judged queries that do not exist).
    """
    relevant = _relevant(spec, log)
    path = _file(spec.path, "queries.jsonl")
    seen: dict[str, int] = {}
    for line, fields in log.objects(path, "_id", "text"):
        with log.checks(path, line):
            name, text = sentence(fields["_id"], "_id"), sentence(fields["text"], "text")
            if name in seen:
                raise BadFieldError(f"the query {name} is already on line {seen[name]}")
            seen[name] = line
            if name in relevant:
                yield name, text, relevant[name]
            else:
                log.counts["without_relevant"] += 1
    if unknown := relevant.keys() - seen.keys():
        log.counts["judged_unknown"] = len(unknown)


def sentences(spec: Spec, log: Log) -> Iterator[Row]:
    """Yield the distinct queries that have relevant passages."""
    return select.sentences(queries(spec, log), (1,))


def passages(text: str, log: Log) -> Iterator[tuple[str, str]]:
    """Yield (id, title and text) of the passages of ``beir:FOLDER``, in the order of the file.

    Title and text are joined by a space, as in BEIR. The passages are streamed, so that duplicate
    ids are not detected.

    Raises:
        InvalidValue: ``text`` names another format.
        CorpusError: the file is missing or damaged, or has too many bad rows.
    """
    path = corpus_file(text)
    for line, fields in log.objects(path, "_id", "text"):
        with log.checks(path, line):
            name, title, body = sentence(fields["_id"], "_id"), fields.get("title"), fields["text"]
            for part, value in (("title", title or ""), ("text", body)):
                if not isinstance(value, str):
                    raise BadFieldError(f"{part} is not a string")
            passage = f"{title or ''} {body}".strip()
            if not passage:
                raise BadFieldError("title and text are empty")
            yield name, passage
    log.check_share()


def passage_log(text: str) -> Log:
    """Return an empty log for passages, with the corpus's limit of bad rows."""
    return Log(parse(text, ("beir",)).options.get("bad_rows", BAD_ROWS))


def corpus_file(text: str) -> str:
    """Return the file of passages of ``beir:FOLDER``."""
    return _file(parse(text, ("beir",)).path, "corpus.jsonl")


def _relevant(spec: Spec, log: Log) -> dict[str, list[str]]:
    """Return query id -> ids of relevant passages; ``counts["read"]`` excludes these lines."""
    path, relevant, judged = _judgements(spec), dict[str, list[str]](), set()
    for line, fields in log.apart().headed(path, *_HEADER):
        with log.checks(path, line):
            query, passage = (sentence(fields[name], name) for name in _HEADER[:2])
            score = number(fields["score"], "score")
            if (query, passage) in judged:
                raise BadFieldError(f"the passage {passage} is judged twice for {query}")
            judged.add((query, passage))
            if score > 0:
                relevant.setdefault(query, []).append(passage)
            else:
                log.counts["judged_irrelevant"] += 1
    return relevant


def _judgements(spec: Spec) -> str:
    folder = f"{spec.path.rstrip('/')}/qrels"
    file = f"{spec.choice('split', 'test', SPLITS)}.tsv"
    if file not in (there := names_in(folder)):
        names = ", ".join(sorted(name for name in there if name.endswith(".tsv"))) or "none"
        raise CorpusError(f"{folder}/{file}", f"there is no such file; there are: {names}")
    return f"{folder}/{file}"


def _file(folder: str, name: str) -> str:
    """Return ``FOLDER/NAME.gz`` if it exists, else ``FOLDER/NAME``."""
    zipped = f"{name}.gz"
    return f"{folder.rstrip('/')}/{zipped if zipped in names_in(folder) else name}"
