"""A fit comes back from disk as it was, however its arrays lay in memory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sentune.encoders.words import WordTable
from sentune.errors import InvalidValue
from sentune.methods import ClosedForm
from sentune.training.closed_form_model import (
    build_closed_form,
    export_closed_form,
    load_closed_form,
    load_fit,
    save_fit,
)
from sentune.training.model import READOUTS_FILE

WORDS = tuple("abcdefghijklmnop")
TEXTS = [" ".join(WORDS[i : i + 4]) for i in range(12)] + ["a c e", "b d f", "p a", "o b c"]


def words() -> WordTable:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(16, 6)).astype(np.float32)
    return WordTable(words=WORDS, vectors=vectors, probabilities=np.full(16, 1 / 16))


def solved(name: str, settings: dict, folder: Path) -> ClosedForm:
    """A model that is fitted to ``TEXTS`` and saved in a folder."""
    model = build_closed_form(name, words(), settings)
    statistics = model.statistics()
    statistics.add(TEXTS)
    model.solve(statistics, 3)
    folder.mkdir(exist_ok=True)
    save_fit(model, folder)
    return model


@pytest.mark.parametrize(
    ("name", "settings"),
    [("sif", {}), ("laes", {"form": "res"}), ("laes", {"form": "bres-cat", "solver": "exact"})],
)
def test_a_loaded_fit_gives_the_same_embeddings(name: str, settings: dict, tmp_path: Path) -> None:
    model = solved(name, settings, tmp_path)
    again = load_fit(tmp_path, words())
    assert again.settings == model.settings
    for value in (1, 2, 3):
        np.testing.assert_array_equal(again.embed(TEXTS, value), model.embed(TEXTS, value))


def test_a_model_folder_of_0_2_0_names_the_readout_of_laes_units(tmp_path: Path) -> None:
    solved("laes", {}, tmp_path / "fit")
    export_closed_form(
        tmp_path / "fit", tmp_path / "model", words=words(), settings={},
        readouts={"sts/units": 2}, objective="sts/pearson", card={},
    )  # fmt: skip
    file = tmp_path / "model" / READOUTS_FILE
    assert json.loads(file.read_text()) == {"sts/n_h": 2, "n_h": 2}
    file.write_text('{"sts/units": 2, "units": 2}')
    loaded = load_closed_form(tmp_path / "model")
    assert loaded.readouts == {"sts/n_h": 2, "n_h": 2}


def test_the_model_of_a_study_by_a_subset_has_its_task_s_readout(tmp_path: Path) -> None:
    solved("laes", {}, tmp_path / "fit")
    export_closed_form(
        tmp_path / "fit", tmp_path / "model", words=words(), settings={},
        readouts={"sts12/n_h": 3, "sts/n_h": 2}, objective="sts12/MSRpar/pearson", card={},
    )  # fmt: skip
    assert load_closed_form(tmp_path / "model").readouts["n_h"] == 3


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(InvalidValue, match="n_h"):
        build_closed_form("laes", words(), {"n_h": 3})
    with pytest.raises(InvalidValue, match="form"):
        build_closed_form("laes", words(), {"form": "best"})
