"""MLflow's model registry: publishes a model folder as a version, and finds it by its alias."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from sentune.errors import InvalidValue
from sentune.io.cached_file import node_cache
from sentune.io.folders import draft_beside, settle
from sentune.tracking.client import digest_of, mlflow_client
from sentune.tracking.database import check_tracking_file, follow_move
from sentune.tracking.environment import default_tracking_uri
from sentune.tracking.runs import Run, digest

ALIAS = "champion"
_CONTENT, _MODEL = "sentune.content", "sentune.model"
"""Tags of a version: the digests of all its files, and of all but the card and the manifest."""
_ADDRESS = re.compile(r"models:/(?P<name>[^/@:]+)(?:@(?P<alias>[\w-]+)|/(?P<version>\d+))")


def publish(
    client: Any, run: Run, folder: Path, name: str, description: str, tags: Mapping[str, str]
) -> None:
    """Register a model folder as a version of ``name``, and make this version the champion.

    The files go to ``model/DIGEST`` of the run, so that a later model never overwrites those of an
    earlier version. A model whose files differ only in card and manifest, which each start of a
    study writes again, stays one version. The files are stored in MLflow's layout, which
    ``mlflow.pyfunc.load_model`` and ``mlflow models serve`` can load.
    """
    from sentune.training.model import CARD_FILE, MANIFEST  # it imports torch

    content, model = digest(folder), digest(folder, without=(CARD_FILE, MANIFEST))
    place = f"model/{content[:12]}"

    def send() -> None:
        with tempfile.TemporaryDirectory() as scratch:
            wrapped = _as_python_function(folder, Path(scratch, "model"))
            client.log_artifacts(run.id, str(wrapped), place)

    if not client.search_registered_models(f"name = '{name}'"):
        client.create_registered_model(name)
    versions = client.search_model_versions(f"name = '{name}'")
    version = next((v.version for v in versions if v.tags.get(_MODEL) == model), None)
    if version is not None:
        client.update_model_version(name, version, description)
    else:
        run.put(client, place, content, send)
        version = client.create_model_version(
            name,
            f"{run.artifact_uri}/{place}",
            run.id,
            tags={**tags, _CONTENT: content, _MODEL: model},
            description=description,
        ).version
    client.set_registered_model_alias(name, ALIAS, version)


def resolve_model(address: str, tracking_uri: str | None = None) -> Path:
    """Return the local folder of ``models:/NAME@ALIAS`` or ``models:/NAME/VERSION``.

    It is the registered folder if that is on this machine, else a copy in the user's cache, which
    is downloaded once.

    ``tracking_uri`` is MLflow's server or database; None: that of ``default_tracking_uri``.

    Raises:
        InvalidValue: there is no such model, alias or version, or its files have changed.
        DamagedFile: the database is damaged.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise InvalidValue("model", address, "give models:/NAME@champion or models:/NAME/VERSION")
    uri = tracking_uri or default_tracking_uri()
    check_tracking_file(uri)
    follow_move(uri)
    client = mlflow_client(uri)
    version = _found(client, address, match)
    source = client.get_model_version_download_uri(version.name, version.version)
    content = version.tags.get(_CONTENT, "")
    parts = urlparse(source)
    if parts.scheme in ("", "file"):
        folder = Path(unquote(parts.path))
    else:
        known = content or digest_of((uri, version.version))  # earlier versions have no content tag
        folder = _downloaded(source, uri, version.name, known)
    if (folder / "MLmodel").is_file():  # else the version is an older one
        folder = next((folder / "data").iterdir())
    if content and digest(folder) != content:
        fix = f"{folder} has changed since it was registered; load the model folder of its study"
        raise InvalidValue("model", address, fix)
    return folder


def _as_python_function(folder: Path, wrapped: Path) -> Path:
    """Write a model folder as an MLflow ``python_function`` that installed code loads."""
    import pandas as pd
    from mlflow import pyfunc
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    other = ColSpec("string", "other", required=False)
    columns: list[Any] = [ColSpec("string", "sentence"), other]
    output = ParamSpec("output", "string", "embeddings")
    example = pd.DataFrame({"sentence": ["A poodle runs."], "other": ["A dog runs."]})
    packages = ("sentune", "torch", "transformers", "pandas")
    pyfunc.save_model(
        path=str(wrapped),
        loader_module="sentune.embedder.pyfunc",
        data_path=str(folder),
        input_example=example,
        signature=ModelSignature(inputs=Schema(columns), params=ParamSchema([output])),
        pip_requirements=[f"{name}=={metadata.version(name)}" for name in packages],
    )
    return wrapped


def _found(client: Any, address: str, match: re.Match[str]) -> Any:
    from mlflow.exceptions import MlflowException

    try:
        if match["alias"]:
            return client.get_model_version_by_alias(match["name"], match["alias"])
        return client.get_model_version(match["name"], match["version"])
    except MlflowException as error:
        known = sorted(model.name for model in client.search_registered_models(max_results=100))
        fix = f"known models: {', '.join(known) or 'none'} ({error.message})"
        raise InvalidValue("model", address, fix) from error


def _downloaded(source: str, tracking_uri: str, name: str, content: str) -> Path:
    from mlflow.artifacts import download_artifacts

    folder = node_cache() / "models" / name / content[:12]
    if not folder.exists():
        with draft_beside(folder) as draft:
            got = download_artifacts(source, tracking_uri=tracking_uri, dst_path=str(draft))
            settle(Path(got), folder)  # unless another process was first
    return folder
