"""From ``--encoder`` to a local folder that every worker can load."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

from sentune.encoders.tiny import TinySpec, prepare_tiny
from sentune.errors import InvalidValue

# nothing executable and no pickles: configs, tokenizers and safetensors
_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]


def prepare(spec: str, texts: Iterable[str], cache: Path) -> str:
    """Absolute path of a folder with config, tokenizer and, unless built in, weights.

    Args:
        spec: ``builtin:tiny[?layers=2&width=64...]``, a local folder, or a name on the hub.
        texts: sentences that a built-in encoder's vocabulary is learned from.
        cache: folder for built-in encoders; the same texts and options give the same folder.

    Raises:
        InvalidValue: no such folder, no such name, or the hub cannot be reached.
    """
    if spec.startswith("builtin:"):
        return str(prepare_tiny(TinySpec.parse(spec), texts, cache))
    path = Path(spec).expanduser()
    if path.exists():
        return str(_checked(path.resolve(), spec))
    if path.is_absolute() or spec.startswith((".", "~")) or spec.count("/") > 1:
        raise InvalidValue("--encoder", spec, "no such folder; name an existing one")
    return str(_checked(Path(_download(spec)), spec))


def _checked(folder: Path, spec: str) -> Path:
    if not (folder / "config.json").is_file():
        raise InvalidValue("--encoder", spec, "name a folder with a Hugging Face config.json")
    if any(folder.glob("*.bin")) and not any(folder.glob("*.safetensors")):
        raise InvalidValue(
            "--encoder", spec, "its weights are pickled; convert them to safetensors"
        )
    return folder


def _download(name: str) -> str:
    try:
        return snapshot_download(name, allow_patterns=_FILES, ignore_patterns=["*/*"])
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise InvalidValue(
            "--encoder",
            name,
            "it is no local folder and the hub did not give it "
            f"({type(error).__name__}); name a local folder, or builtin:tiny",
        ) from error
