"""Model folders and checkpoints of whoever means harm: nothing in them is ever run."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from sentune import Embedder
from sentune.corpora.batches import Held
from sentune.corpora.encode import Encoder
from sentune.encoders import load, load_tokenizer, prepare
from sentune.encoders.decoders import load_decoder
from sentune.encoders.words import WordTable
from sentune.errors import InvalidValue
from sentune.io.checksums import checksums, document_checksum
from sentune.io.object_store import on_this_machine
from sentune.methods import find
from sentune.methods.closed_form import ClosedForm
from sentune.training.checkpoints import CheckpointStore
from sentune.training.closed_form_model import (
    build_closed_form,
    export_closed_form,
    load_closed_form,
    save_fit,
)
from sentune.training.group import Group
from sentune.training.model import save_model
from sentune.training.recipes import build
from sentune.training.settings import split
from sentune.training.state import Position, load_state, resume, save_state
from sentune.training.trial import Progress, TrialSpec

TEXTS = ["a dog runs in the park", "a cat sleeps on the mat", "two men play a game"]


class Touch:
    """Pickled, it makes a file wherever it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file that only a pickle makes."""
    file = tmp_path / "executed"
    pickle.loads(pickle.dumps(Touch(file)))
    assert file.exists(), "the pickle would not do it"
    file.unlink()
    return file


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    spec = "builtin:tiny?layers=1&width=16&heads=2&inner=32"
    return prepare(spec, TEXTS, tmp_path_factory.mktemp("encoders"))


@pytest.fixture(scope="session")
def sound(encoder: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of boxes: encoder, tokenizer, head."""
    kind = find("gumbel")
    own, training = split({"max_length": 32, "dimension": 4}, kind)
    made = build(kind, own, training, encoder, seed=1)
    folder = tmp_path_factory.mktemp("models") / "model"
    save_model(made, encoder, folder, training=training, readouts={"rte/threshold": 0.2}, card={})
    return folder


@pytest.fixture
def model(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "model"))


def loaders(folder: Path) -> dict[str, Callable[[], object]]:
    """Every public way to read a folder of a model or an encoder."""
    path = str(folder)
    return {
        "Embedder": lambda: Embedder.load(path),
        "encoder": lambda: load(path),
        "decoder": lambda: load_decoder(path),
        "tokenizer": lambda: load_tokenizer(path),
        "corpus": lambda: Encoder(path, 16).ends_texts(),
        "prepare": lambda: prepare(path, TEXTS, folder.parent / "cache"),
    }


def outcome(load: Callable[[], object]) -> str:
    """How loading ended; any error will do, as long as nothing was run."""
    try:
        load()
    except Exception as error:  # noqa: BLE001 -- every library has its own
        return type(error).__name__
    return "loaded"


def test_no_file_of_a_model_is_unpickled(model: Path, mark: Path) -> None:
    evil = pickle.dumps(Touch(mark))
    for file in [file for file in model.rglob("*") if file.is_file()]:
        before = file.read_bytes()
        file.write_bytes(evil)
        ends = {name: outcome(load) for name, load in loaders(model).items()}
        assert not mark.exists(), (file.name, ends)
        if file.name in ("model.safetensors", "head.safetensors", "settings.json"):
            assert ends["Embedder"] != "loaded"
        file.write_bytes(before)
    assert Embedder.load(model).encode(TEXTS).shape[0] == 3


@pytest.mark.parametrize("name", ["pytorch_model.bin", "tf_model.h5", "model.pt", "vocab.pkl"])
def test_a_pickle_beside_the_weights_or_in_their_place_is_not_read(
    name: str, model: Path, mark: Path
) -> None:
    torch.save({"weights": Touch(mark)}, model / name)
    assert outcome(loaders(model)["Embedder"]) == "loaded"
    (model / "model.safetensors").unlink()
    ends = {way: outcome(load) for way, load in loaders(model).items()}
    assert ends["Embedder"] == "InvalidValue"
    assert not mark.exists(), ends


@pytest.mark.parametrize("named", ["evil.bin", "../evil.bin", "/etc/passwd"])
def test_an_index_that_names_other_files_loads_none(named: str, model: Path, mark: Path) -> None:
    torch.save({"weights": Touch(mark)}, model / "evil.bin")
    torch.save({"weights": Touch(mark)}, model.parent / "evil.bin")
    (model / "model.safetensors").unlink()
    (model / "model-00001-of-00001.safetensors").write_bytes(b"")
    index = {"metadata": {}, "weight_map": {"embeddings.word_embeddings.weight": named}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    ends = {way: outcome(load) for way, load in loaders(model).items()}
    assert ends["Embedder"] != "loaded"
    assert ends["encoder"] != "loaded"
    assert not mark.exists(), ends


def test_code_in_a_model_folder_is_never_imported(model: Path, mark: Path) -> None:
    """What ``trust_remote_code`` would run: ``auto_map`` and a module beside it."""
    code = f"from pathlib import Path\nPath({str(mark)!r}).touch()\nclass Evil: pass\n"
    for module in ("evil.py", "modeling_evil.py", "__init__.py"):
        (model / module).write_text(code)
    autos = ("AutoConfig", "AutoModel", "AutoModelForCausalLM")
    change(model / "config.json", auto_map=dict.fromkeys(autos, "evil.Evil"))
    tokenizer = {"auto_map": {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}}
    change(model / "tokenizer_config.json", **tokenizer, trust_remote_code=True)
    (model / "modules.json").write_text(json.dumps([{"idx": 0, "path": "", "type": "evil.Evil"}]))
    known = {way: outcome(load) for way, load in loaders(model).items()}
    assert not mark.exists(), known
    for changes in ({"model_type": "evil"}, {"model_type": "../../evil"}):
        change(model / "config.json", **changes)
        change(model / "tokenizer_config.json", tokenizer_class="evil.Evil")
        ends = {way: outcome(load) for way, load in loaders(model).items()}
        assert ends["Embedder"] != "loaded"
        assert not mark.exists(), ends


@pytest.mark.parametrize(
    "method",
    [
        "os.system",
        "../../evil",
        "/etc/passwd",
        "__import__('os')",
        "",
        "sentune.cli:main",
        "antigravity:Evil",
    ],
)
def test_a_model_names_a_method_not_a_module(method: str, model: Path) -> None:
    change(model / "settings.json", method=method)
    before = set(sys.modules)
    with pytest.raises(InvalidValue):
        Embedder.load(model)
    assert "antigravity" not in set(sys.modules) - before


def test_settings_that_are_none_are_refused(model: Path) -> None:
    described = json.loads((model / "settings.json").read_text())
    change(model / "settings.json", settings={**described["settings"], "__class__": "os.system"})
    with pytest.raises(InvalidValue, match="__class__"):
        Embedder.load(model)


def change(file: Path, **values: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


@pytest.fixture
def words_model(tmp_path: Path) -> Path:
    """A model on word vectors."""
    words = WordTable(
        words=("dog", "cat", "runs"),
        vectors=np.eye(3, 4, dtype=np.float32),
        probabilities=np.full(3, 0.1),
    )
    made: ClosedForm = build_closed_form("sif", words, {"variant": "average"})
    fit = {"components": np.zeros((1, 4)), "squares": np.zeros(1)}
    made.load_state({**fit, "sentences": np.array(3), "empty": np.array(0)})
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    save_fit(made, checkpoint)
    folder = tmp_path / "model"
    export_closed_form(
        checkpoint,
        folder,
        words=words,
        settings={"variant": "average"},
        readouts={f"sts/{made.axis.name}": 0},
        objective="sts/pearson",
        card={},
    )
    return folder


@pytest.mark.parametrize("named", ["../../outside", "{outside}", "words/../../outside", "./link"])
def test_a_model_names_no_file_outside_of_itself(named: str, words_model: Path) -> None:
    outside = words_model.parent / "outside"
    shutil.copytree(words_model / "words", outside)
    (words_model / "words/link").symlink_to(outside)
    change(words_model / "words/table.json", vectors=named.format(outside=outside))
    with pytest.raises(InvalidValue, match=r"table\.json must name its own folder"):
        load_closed_form(words_model)


def test_word_arrays_are_not_unpickled(words_model: Path, mark: Path) -> None:
    files = sorted((words_model / "words").glob("*.npy"))
    assert files
    for file in files:
        before = file.read_bytes()
        np.save(file, np.array([Touch(mark)], dtype=object), allow_pickle=True)
        assert outcome(lambda: Embedder.load(words_model)) == "ValueError"
        file.write_bytes(pickle.dumps(Touch(mark)))
        assert outcome(lambda: Embedder.load(words_model)) != "loaded"
        assert not mark.exists(), file.name
        file.write_bytes(before)


def layer() -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(3, 2)


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    """Checkpoints at 100 and 200 examples."""
    folder = tmp_path / "checkpoints"
    method = layer()
    optimizer = torch.optim.AdamW(method.parameters())
    method(torch.ones(3)).sum().backward()
    optimizer.step()
    for examples in (100, 200):
        said = Progress(
            examples=examples,
            metrics={"task/metric": 0.5},
            readouts={},
            final=False,
            save=lambda into: save_state(into, method, optimizer, Position(step=3)),
        )
        CheckpointStore(str(folder)).save(said, 1.0 - examples / 1000)
    return folder


@pytest.mark.parametrize("file", ["weights.safetensors", "optimizer.pt", "progress.json"])
def test_a_flipped_byte_sets_a_checkpoint_aside(file: str, checkpoints: Path) -> None:
    damaged = checkpoints / "examples_000000200" / file
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    store = CheckpointStore(str(checkpoints))
    taken = store.last()
    assert taken is not None
    assert taken.name == "examples_000000100"
    assert f"checksum of {file}" in store.notes[0]
    load_state(taken, layer())


@pytest.mark.parametrize("file", ["weights.safetensors", "optimizer.pt", "progress.json"])
@pytest.mark.parametrize("form", ["pickle", "torch"])
def test_a_forged_checkpoint_with_right_checksums_runs_nothing(
    file: str, form: str, checkpoints: Path, mark: Path
) -> None:
    """A checksum is no signature: whoever can write can compute it."""
    forged = checkpoints / "examples_000000200"
    if form == "pickle":
        (forged / file).write_bytes(pickle.dumps(Touch(mark)))
    else:
        torch.save({"optimizer": Touch(mark), "position": {}}, forged / file)
    if file != "progress.json":
        sign(forged)
    spec = TrialSpec(
        trial="0000", method="gumbel", settings={}, encoder="", corpus=Held(None),
        dev=Held([]), max_examples=300, milestones=(100, 300), objective="task/metric",
        directory=str(checkpoints),
    )  # fmt: skip
    refused = (SafetensorError, pickle.UnpicklingError)
    with pytest.raises(refused) if file != "progress.json" else nullcontext():
        resume(spec, 8, layer(), Group.single("cpu"))
    assert not mark.exists()


def sign(folder: Path) -> None:
    """Checksums as ``CheckpointStore`` would have written them."""
    file = folder / "progress.json"
    said = json.loads(file.read_text())
    del said["checksum"]
    file.unlink()
    said["files"] = checksums(folder)
    file.write_text(json.dumps({**said, "checksum": document_checksum(said)}))


def test_objects_with_dots_in_their_keys_stay_in_their_folder(tmp_path: Path) -> None:
    """An object store has no folders: a key may be called anything."""
    files = fsspec.filesystem("memory")
    place = "memory://bucket/trial"
    try:
        said = Progress(
            examples=100, metrics={}, readouts={}, final=False, save=lambda into: write(into)
        )
        CheckpointStore(place).save(said, None)
        root = "/bucket/trial/examples_000000100"
        outside = tmp_path / "written"
        for key in (f"../../../../../../../..{outside}", f"/{outside}", "sub/../../../up"):
            with files.open(f"{root}/plain", "wb") as stream:
                stream.write(b"x")
            files.store[f"{root}/{key}"] = files.store.pop(f"{root}/plain")
        store = CheckpointStore(place)
        folder = store.last()
        assert folder is not None
        assert sorted(file.name for file in folder.rglob("*")) == ["progress.json", "state"]
        assert not outside.exists()
        assert not (folder.parent / "up").exists()
    finally:
        files.store.clear()


def write(folder: Path) -> None:
    (folder / "state").write_text("100")


def test_a_copy_of_a_folder_of_objects_stays_in_its_folder(tmp_path: Path) -> None:
    files, outside = fsspec.filesystem("memory"), tmp_path / "written"
    try:
        files.pipe_file("/bucket/model/settings.json", b"{}")
        for key in (f"../../../../../../../..{outside}", f"/{outside}", "sub/../../../up"):
            files.pipe_file("/bucket/model/plain", b"x")
            files.store[f"/bucket/model/{key}"] = files.store.pop("/bucket/model/plain")
        with on_this_machine("memory://bucket/model") as copy:
            assert [file.name for file in copy.rglob("*")] == ["settings.json"]
            assert not outside.exists()
            assert not (copy.parent / "up").exists()
        assert not copy.exists()
    finally:
        files.store.clear()
