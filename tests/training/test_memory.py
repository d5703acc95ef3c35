"""Out of memory: the same step with fewer examples at a time, and what is said where none fit."""

from __future__ import annotations

import gc
import pickle
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sentune.code import loaded_code
from sentune.launchers.run_trial import guarded, run_trial
from sentune.launchers.trial_report import Report
from sentune.training import loop
from sentune.training.group import Group
from sentune.training.loop import train
from sentune.training.memory import DEVICE, HOST, OutOfMemory, free, settle, short_of_memory
from sentune.training.recipes import Validator
from sentune.training.recipes.sentences import SentenceBackward
from sentune.training.step import Steps
from sentune.training.trial import TrialSpec
from tests.interpreter import run_python

MakeTrial = Callable[..., TrialSpec]
SENTENCES = 3
"""Of a triplet."""


@pytest.fixture
def exact(make_trial: MakeTrial) -> TrialSpec:
    """float64 without dropout, whose masks depend on which sentences are embedded together."""
    spec = make_trial(settings={"precision": "float64"}, directory="")
    target = Path(f"{spec.encoder}-sober")
    if not target.exists():
        target.mkdir()
        for file in Path(spec.encoder).iterdir():
            text = file.read_text().replace('dropout_prob": 0.1', 'dropout_prob": 0.0')
            (target / file.name).write_text(text)
    return replace(spec, encoder=str(target))


def small_device(
    monkeypatch: pytest.MonkeyPatch, examples: int, error: type[Exception] = torch.OutOfMemoryError
) -> list[int]:
    """A device on which more than so many examples at a time do not fit; what was tried on it."""
    embed, tried = SentenceBackward._embed, []

    def embed_what_fits(self: SentenceBackward, part: Any) -> torch.Tensor:
        sentences = len(part.chunk.input_ids)
        tried.append(sentences)
        if sentences > examples * SENTENCES:
            raise error("CUDA out of memory. Tried to allocate 2.00 GiB\nand more")
        return embed(self, part)

    monkeypatch.setattr(SentenceBackward, "_embed", embed_what_fits)
    return tried


def gradients(spec: TrialSpec) -> torch.Tensor:
    """After the first step, before which the weights are the same."""
    trial = loop._Trial(replace(spec, every_step=True), Group.single("cpu"))
    next(trial.train_until(spec.max_examples))
    grads = [p.grad for p in trial.method.parameters() if p.grad is not None]
    return torch.cat([grad.flatten() for grad in grads])


def ended(spec: TrialSpec) -> Report:
    (*_, last) = guarded(train, spec, Group.single("cpu"), loaded_code().fingerprint)
    return last


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, MemoryError, RuntimeError])
def test_the_same_batch_gives_the_same_gradient_in_smaller_parts(
    exact: TrialSpec, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    expected = gradients(exact)
    tried = small_device(monkeypatch, 3, error)
    found = gradients(exact)
    refused = [at for at, sentences in enumerate(tried) if sentences > 3 * SENTENCES]
    assert len(refused) == 3, "16, 8, 4 did not fit"
    assert max(tried[refused[-1] + 1 :]) == 2 * SENTENCES
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_a_trial_that_halves_its_micro_batch_ends_as_one_that_need_not(
    exact: TrialSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    (*_, expected) = run_trial(train, exact, Group.single("cpu"))
    small_device(monkeypatch, 5)
    (*_, found) = run_trial(train, exact, Group.single("cpu"))
    for name in ("direction/accuracy", "train/loss"):
        assert found.metrics[name] == pytest.approx(expected.metrics[name], rel=1e-9)
    assert expected.notes == []
    assert found.notes == [
        f"micro_batch {a} -> {b} after 0 examples: out of memory on the device "
        "(CUDA out of memory. Tried to allocate 2.00 GiB)"
        for a, b in ((16, 8), (8, 4))
    ]


def test_the_smaller_micro_batch_outlives_a_restart(
    exact: TrialSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spec = replace(exact, directory=str(tmp_path))
    tried = small_device(monkeypatch, 5)
    reports = run_trial(train, spec, Group.single("cpu"))
    notes = next(reports).notes
    reports.close()
    del tried[:]
    (*_, last) = run_trial(train, spec, Group.single("cpu"))
    assert max(tried) == 4 * SENTENCES
    assert last.notes == notes
    assert last.final


def test_a_spec_bounds_the_micro_batch_and_never_raises_it(
    exact: TrialSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = small_device(monkeypatch, 16)
    gradients(replace(exact, micro_batch=4))
    assert 2 * SENTENCES < max(tried) <= 4 * SENTENCES
    settings = {**exact.settings, "micro_batch": 2}
    del tried[:]
    gradients(replace(exact, micro_batch=4, settings=settings))
    assert max(tried) == 2 * SENTENCES


def test_where_one_example_does_not_fit_the_trial_is_infeasible(
    exact: TrialSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_device(monkeypatch, 0)
    report = ended(exact)
    assert report.failure == (
        "after 0 examples: out of memory on the device (CUDA out of memory. Tried to allocate "
        "2.00 GiB), even with a micro_batch of 1"
    )
    assert (report.out_of_memory, report.micro_batch, report.repeats) == (True, 0, True)


def test_a_group_has_to_start_again_with_half(exact: TrialSpec) -> None:
    """Its other workers wait in a collective, where no word reaches them."""
    trial = loop._Trial(exact, Group.single("cpu"))
    steps = Steps(exact, trial.method, trial.steps.settings, Group(1, 3, torch.device("cpu")))
    with pytest.raises(OutOfMemory, match="no room with a micro_batch of 6") as caught:
        steps._halve("no room", trial.position)
    assert caught.value.micro_batch == 3
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.micro_batch) == (str(caught.value), 3)


def test_the_optimisers_own_state_does_not_shrink(
    exact: TrialSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of an update may be done when it fails: it is not taken again."""

    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(torch.optim.AdamW, "step", full)
    report = ended(exact)
    assert (
        "for the optimiser's state, which a smaller micro_batch does not shrink" in report.failure
    )
    assert report.out_of_memory


def test_out_of_memory_in_validation_is_called_that(
    exact: TrialSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(Validator, "validate", full)
    report = ended(exact)
    assert report.failure.startswith("after 64 examples: out of memory on the device in validation")
    assert report.out_of_memory


@pytest.mark.parametrize(
    ("error", "where"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), DEVICE),
        (RuntimeError("MPS backend out of memory (MPS allocated: 17 GB)"), DEVICE),
        (RuntimeError("CUDA error: out of memory"), DEVICE),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), DEVICE),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to"), HOST),
        (MemoryError(), HOST),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), ""),
        (ValueError("out of memory"), ""),
    ],
)
def test_every_backends_words_for_it_are_known(error: Exception, where: str) -> None:
    assert short_of_memory(error) == where


def test_the_real_allocator_of_the_cpu_is_recognised() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert short_of_memory(caught.value) == HOST


def test_what_was_imported_is_looked_at_once() -> None:
    settle()
    held = gc.get_freeze_count()
    assert held > 100_000
    kept = [[number] for number in range(100_000)]
    settle()
    assert gc.get_freeze_count() <= held, "what came later is the collector's"
    free()
    assert len(kept) == 100_000


def test_what_a_trial_has_imported_is_looked_at_no_more_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Torch comes with the first trial that needs it."""
    settle()
    held = gc.get_freeze_count()
    module = types.ModuleType("imported_by_a_trial")
    module.content = [[number] for number in range(100_000)]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    settle()
    assert gc.get_freeze_count() >= held + 100_000


def test_torch_computes_with_the_threads_of_its_trial() -> None:
    """Imported before it is told, or afterwards."""
    for first, then in (("torch", "use_threads(1)"), ("sys", "use_threads(1); import torch")):
        code = f"import {first}\nfrom sentune.training.memory import use_threads\n{then}\n"
        assert run_python(f"{code}print(torch.get_num_threads())") == "1"
