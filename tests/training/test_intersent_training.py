"""InterSent from a corpus to a model folder and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForSeq2SeqLM

from sentune.corpora.batches import Held
from sentune.encoders import load_tokenizer
from sentune.encoders.prepare import bundle
from sentune.errors import InvalidValue
from sentune.methods import Intersent
from sentune.training.group import Group
from sentune.training.model import load_method, save_model
from sentune.training.recipes import recipe_of
from sentune.training.recipes.intersent import IntersentValidator, operation_encoder
from sentune.training.step import Stepper, make_optimizer
from sentune.training.trial import TrialSpec
from tests.methods.intersent_scenes import build, columns, family, folder, rows, scratch

CPU = torch.device("cpu")
FAST: dict[str, Any] = {"learning_rate": 3e-3, "decoder_learning_rate": 3e-3, "alpha": 2.0}


def validator(training: Any, source: str) -> IntersentValidator:
    spec = TrialSpec(
        trial="t", method="intersent", settings={}, encoder=source, corpus=Held(None),
        dev=Held([]), max_examples=1, milestones=(1,), objective="generation/rouge1",
    )  # fmt: skip
    return recipe_of(Intersent).validator(spec, training, CPU)


def generated(method: Intersent, training: Any, source: str) -> list[str]:
    """Sentences of one operation of each number of arguments."""
    judge, items = validator(training, source), rows().to_pylist()
    pairs = [row for row in items if row["operation"] == "fusion"]
    seconds = [row["second"] for row in pairs]
    found = judge.generate(method, "fusion", [row["first"] for row in pairs], seconds)
    return found + judge.generate(method, "compression", [row["first"] for row in items], None)


@pytest.fixture(scope="module")
def trained() -> tuple[Intersent, Any, list[float]]:
    """60 steps on one batch."""
    method, training = build(**FAST)
    backward = recipe_of(Intersent).backward(method.train(), training, Group.single(CPU), folder())
    optimizer = make_optimizer(method, training)
    stepper = Stepper(method, optimizer, training, Group.single(CPU), backward)
    losses = [stepper.step(columns(), factor=1.0, seed=(0, i)).loss for i in range(60)]
    return method.eval(), training, losses


def test_the_loss_falls(trained):
    _, _, losses = trained
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_autocast_leaves_losses_and_weights_in_full_precision(precision):
    method, training = build(precision=precision, micro_batch=16)
    backward = recipe_of(Intersent).backward(method.train(), training, Group.single(CPU), folder())
    loss = backward(columns())
    assert loss.dtype is torch.float32
    assert all(p.grad.dtype is torch.float32 for p in method.parameters() if p.grad is not None)
    exact, training = build(precision="float64")
    plain = recipe_of(Intersent).backward(exact.train(), training, Group.single(CPU), folder())
    tolerance = 5e-2 if precision == "bfloat16" else 1e-5
    torch.testing.assert_close(loss.double(), plain(columns()), rtol=tolerance, atol=0)


@pytest.mark.parametrize("parts", ["tiny", "t5", "bart"])
def test_a_model_folder_gives_the_same_sentences(trained, parts, tmp_path: Path):
    source = folder()
    method, training, _ = trained
    if parts != "tiny":
        source = str(_side_by_side(parts))
        method, training = build(source, bottleneck_width=7)
    save_model(method.eval(), source, tmp_path / "model", training=training, readouts={}, card={})
    torch.manual_seed(1234)
    again = load_method(tmp_path / "model")
    assert isinstance(again.method, Intersent)
    for name, weight in method.state_dict().items():
        assert torch.equal(again.method.state_dict()[name], weight), name
    assert generated(again.method, training, source) == generated(method, training, source)
    here, there = again.tokenizer, load_tokenizer(f"{source}/encoder")
    words = ["a small dog slept"]
    assert np.array_equal(here.encode(words, 20)[0], there.encode(words, 20)[0])


def _side_by_side(name: str) -> Path:
    """The encoder and the decoder of one encoder-decoder."""
    return Path(bundle(family(name), family(name), scratch()))


def test_the_folder_is_read_by_other_libraries(trained, tmp_path: Path):
    method, training, _ = trained
    place = tmp_path / "model"
    save_model(method, folder(), place, training=training, readouts={}, card={})
    encoder = AutoModel.from_pretrained(place)
    words = method.encoder.model.get_input_embeddings().weight
    assert torch.equal(encoder.get_input_embeddings().weight, words)
    decoder = AutoModelForSeq2SeqLM.from_pretrained(place / "decoder")
    assert torch.equal(decoder.lm_head.weight, method.decoder.model.lm_head.weight)
    assert (place / "modules.json").is_file()


def test_a_folder_without_its_weights_is_refused(trained, tmp_path: Path):
    method, training, _ = trained
    place = tmp_path / "model"
    save_model(method, folder(), place, training=training, readouts={}, card={})
    (place / "decoder" / "model.safetensors").unlink()
    with pytest.raises(InvalidValue, match=r"lacks model\.safetensors"):
        load_method(place)
    with pytest.raises(InvalidValue, match="max_length"):
        build(max_length=500)
    with pytest.raises(InvalidValue, match=r"with encoder/ and decoder/"):
        operation_encoder(str(tmp_path), 20)


def test_the_validator_generates_what_one_at_a_time_gives(trained):
    method, training, _ = trained
    judge = validator(training, folder())
    items = [row for row in rows().to_pylist() if row["operation"] == "difference"]
    firsts, seconds = [r["first"] for r in items], [r["second"] for r in items]
    together = judge.generate(method, "difference", firsts, seconds)
    apart = [
        judge.generate(method, "difference", [a], [b])[0]
        for a, b in zip(firsts, seconds, strict=True)
    ]
    assert together == apart
    assert judge.generate(method, "difference", [], []) == []


def test_the_recipe_makes_a_validator_of_a_trial(trained):
    method, training, _ = trained
    result = validator(training, folder()).validate(method)
    assert result.metrics == {}
    assert method.training
    method.eval()
