"""Model card of a model folder: ``README.md`` with the metadata that the Hugging Face Hub reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any

from sentune.tasks import task_and_corpus

HUB = "Hub"
"""Section of a card that becomes metadata instead of a table. It has ``encoder``, ``corpora`` (role
-> ``FORMAT:PATH`` or ``TASK=FORMAT:PATH``), ``split``, and ``metrics`` (``task/metric`` -> value)
on that split."""

VERDICT = "Verdict"
"""Section of a card that is printed under its title: objective -> verdict on the model."""

HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
"""Name of a repository on the Hub."""
_EXAMPLES = {
    "intersent": 'embedder.decode(embedder.fuse("A dog ran.", "A dog slept."))',
    "invertible": 'embedder.similarity("A poodle runs.", "A dog runs.")',
}
_EXAMPLE = 'embedder.entails("A poodle runs.", "A dog runs.")'

_USE = """## Use

```python
from sentune import Embedder

embedder = Embedder.load("PATH TO THIS FOLDER")
{example}
```

With MLflow, where the study registered it:

```python
import mlflow

mlflow.pyfunc.load_model("models:/NAME@champion").predict([{{"sentence": "A poodle runs."}}])
```
"""
_USE_TRANSFORMERS = """With sentence-transformers:

```python
from sentence_transformers import SentenceTransformer

SentenceTransformer("PATH TO THIS FOLDER"{trust}).encode(["A poodle runs."])
```
"""


def model_card(
    name: str,
    title: str,
    folder: Path,
    source: str | None,
    sections: Mapping[str, Mapping[str, Any]],
) -> str:
    """Return the text of a model's card.

    Args:
        name, title: name and title of the method.
        folder: model folder, complete except for the card.
        source: folder of the encoder from which the method was built; the card takes its licence.
        sections: heading -> name -> value; ``HUB`` becomes metadata, ``VERDICT`` is at the top.
    """
    loaded, modules = _USE.format(example=_EXAMPLES.get(name, _EXAMPLE)), folder / "modules.json"
    if modules.is_file():
        own = "sentune." in modules.read_text(encoding="utf-8")
        trust = ", trust_remote_code=True" if own else ""
        loaded += "\n" + _USE_TRANSFORMERS.format(trust=trust)
    data = card_data(name, title, source, sections.get(HUB, {}))
    data.library_name = "sentence-transformers" if modules.is_file() else "sentune"
    parts = [
        f"---\n{data.to_yaml()}\n---\n",
        f"# {title} sentence embeddings\n",
        *(f"**{_cell(verdict)}**\n" for verdict in sections.get(VERDICT, {}).values()),
        "Trained with sentune.\n",
        loaded,
    ]
    for heading, values in sections.items():
        if values and heading not in (HUB, VERDICT):
            rows = [f"| {_cell(key)} | {_cell(value)} |" for key, value in _flatten(values)]
            parts.append("\n".join([f"## {heading}\n", "| | |", "|---|---|", *rows, ""]))
    return "\n".join(parts)


def card_data(name: str, title: str, source: str | None, hub: Mapping[str, Any]) -> Any:
    """Return the metadata of a card as ``huggingface_hub.ModelCardData``.

    The base model and data sets are named if they are on the Hub. Each metric is listed in the
    model index, with the corpora on which it was measured.
    """
    from huggingface_hub import EvalResult, ModelCardData

    corpora = {role: task_and_corpus(str(spec))[1] for role, spec in hub.get("corpora", {}).items()}
    split = str(hub.get("split", ""))
    judged = ", ".join(_shown(spec) for role, spec in corpora.items() if role.startswith(split))
    results = [
        EvalResult(
            task_type="sentence-similarity",
            task_name=metric.partition("/")[0],
            dataset_type=corpora[split].partition(":")[0],
            dataset_name=judged,
            dataset_split=split,
            metric_type=metric.rpartition("/")[2],
            metric_name=metric,
            metric_value=float(value),
        )
        for metric, value in hub.get("metrics", {}).items()
        if split in corpora
    ]
    named = [spec for role, spec in corpora.items() if role.startswith("corpus")]
    encoder = str(hub.get("encoder", ""))
    on_hub = HUB_NAME.fullmatch(encoder) and not Path(encoder).exists()
    datasets = sorted({s[3:].partition("?")[0] for s in named if s.startswith("hf:")})
    return ModelCardData(
        pipeline_tag="sentence-similarity",
        tags=["sentence-embeddings", name],
        license=_license(source),
        base_model=encoder if on_hub else None,
        datasets=datasets or None,
        model_name=f"{title} sentence embeddings" if results else None,
        eval_results=results or None,
    )


def _license(source: str | None) -> str | None:
    """Return the licence in the card of a folder's encoder; None if it has none or is damaged."""
    from huggingface_hub import ModelCard
    from yaml import YAMLError

    if source is None:
        return None
    cards = (Path(source, name) for name in ("README.md", "encoder/README.md"))
    if (card := next((card for card in cards if card.is_file()), None)) is None:
        return None
    try:
        named = ModelCard.load(card, ignore_metadata_errors=True).data.to_dict().get("license")
    except (ValueError, YAMLError):
        return None
    return str(named) if named else None


def _shown(spec: str) -> str:
    """Return the specification of a corpus without the folders of its file."""
    kind, _, place = spec.partition(":")
    return f"{kind}:{PurePath(place).name}" if place.startswith(("/", ".")) else spec


def _flatten(rows: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Yield each value with its name; nested values are named ``name.inner``."""
    for name, value in rows.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _cell(value: Any) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")
