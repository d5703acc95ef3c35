"""Where the CPU time of a training step goes, for each method that is trained by gradient.

Data (a batch of token ids), forward (encoder, head, decoder), the loss table (the contrastive loss
with its own backward pass), backward, optimiser (clipping too) and host, which is the rest: sorting
and padding, random seeds. CPU seconds of one thread, so that a busy machine changes little. Then
torch.profiler counts one step more: the matrix products' share of its time, and the operations they
take as a share of torch's fastest product in the CPU time of a step. SIF and LAES have no step.

SENTUNE_MODELS names the folder with all-MiniLM-L6-v2, SENTUNE_DATA the one with SNLI; without them
the built-in encoder and corpora are profiled. Arguments: names of methods.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from measure import DATA, machine, minilm, product_speed, show, snli, table_of
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from sentune.corpora import Kind
from sentune.corpora.batches import SharedSource
from sentune.methods import TRAINED, GradientMethod
from sentune.training.group import Group
from sentune.training.inputs import BUILTIN, InputMaker
from sentune.training.recipes import build, recipe_of
from sentune.training.settings import split
from sentune.training.step import Stepper, make_optimizer

BATCH, LENGTH, STEPS = 64, 64, 2
PHASES = ("data", "forward", "loss table", "backward", "optimiser", "host")
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm")


class Clock:
    """CPU seconds of the phases of a step; those of an inner phase are not the outer's."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._phases, self._since = ["host"], time.process_time()

    def switch(self) -> None:
        """Book the time since the last switch on the phase that ends here."""
        now = time.process_time()
        self.spent[self._phases[-1]] += now - self._since
        self._since = now

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.switch()
        self._phases.append(name)
        try:
            yield
        finally:
            self.switch()
            self._phases.pop()

    def replace(self, owner: Any, name: str, phase: str) -> None:
        """Time every call of an attribute of an object or a module."""
        original = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.phase(phase):
                return original(*args, **kwargs)

        setattr(owner, name, timed)

    def loss_table(self, method: Any, name: str) -> None:
        """Time a loss: its call, and its backward pass, which ends at the embeddings' gradients."""
        original = getattr(method, name)

        def arrived(gradient: Tensor) -> None:
            self.switch()
            self._phases[-1] = "backward"

        def timed(*args: Any) -> Any:
            tensors = args[0].values() if isinstance(args[0], dict) else args[:2]
            for tensor in tensors:
                if tensor.requires_grad:
                    tensor.register_hook(arrived)
            with self.phase("loss table"):
                return original(*args)

        setattr(method, name, timed)


def watch(method: Any, optimizer: torch.optim.Optimizer, clock: Clock) -> None:
    """Time the parts of a method and of torch that a step calls."""
    first = "loss table"  # what a backward pass begins with
    if method.recipe == "invertible":
        clock.replace(method, "loss", "forward")
        first = "backward"
    else:
        clock.replace(method, "embed" if method.recipe == "intersent" else "forward", "forward")
        clock.loss_table(method, "loss" if hasattr(method, "loss") else "contrastive")
    if method.recipe == "intersent":
        clock.replace(method, "generative", "forward")
        first = "backward"  # most calls are the decoder's; the loss table's is counted there too
    clock.replace(torch.autograd, "backward", first)
    clock.replace(torch.nn.utils, "clip_grad_norm_", "optimiser")
    clock.replace(optimizer, "step", "optimiser")


def prepared(name: str, scratch: Path, clock: Clock) -> Callable[[], None]:
    """Return a step of a method, watched by ``clock``."""
    kind: type[GradientMethod] = TRAINED[name]
    real = DATA and kind.kind in (Kind.TRIPLETS, Kind.SENTENCES)
    corpus = snli("train_first100k") if real else BUILTIN[kind.kind][0]
    inputs = InputMaker(max_length=LENGTH, cache=scratch, limit=BATCH * (STEPS + 2)).inputs(
        kind,
        (corpus,),
        encoder=minilm(),
        decoder="builtin:tiny",
        vectors="builtin:ppmi",
    )
    own, settings = split({"batch_size": BATCH, "max_length": LENGTH}, kind)
    method = build(kind, own, settings, inputs.folder, 0).train()
    group = Group.single("cpu")
    backward = recipe_of(kind).backward(method, settings, group, inputs.folder)
    optimizer = make_optimizer(method, settings)
    watch(method, optimizer, clock)
    stepper = Stepper(method, optimizer, settings, group, backward)
    batches = SharedSource(inputs.tokens[0].load()).batches(BATCH, seed=0)

    def step() -> None:
        with clock.phase("data"):
            columns = next(batches).columns
        stepper.step(columns, factor=1.0, seed=(0,))
        clock.switch()

    return step


def main(names: list[str]) -> None:
    """Prints a row for each method: milliseconds a step, shares of the phases, and products."""
    torch.set_num_threads(1)
    encoder = Path(minilm()).name
    title = f"A step of batch {BATCH}, {encoder}, float32: shares of its CPU time in %"
    table = table_of(title, "", "ms", *PHASES, "products", "of peak", caption=machine(1))
    originals = torch.autograd.backward, torch.nn.utils.clip_grad_norm_
    for name in names or list(TRAINED):
        clock = Clock()
        with tempfile.TemporaryDirectory() as scratch:
            step = prepared(name, Path(scratch), clock)
            step()
            clock.spent.clear()
            for _ in range(STEPS):
                step()
            spent = dict(clock.spent)
            with profile(activities=[ProfilerActivity.CPU], with_flops=True) as watched:
                step()
        torch.autograd.backward, torch.nn.utils.clip_grad_norm_ = originals
        seconds = sum(spent.values())
        events = watched.key_averages()
        own = sum(event.self_cpu_time_total for event in events)
        products = sum(e.self_cpu_time_total for e in events if e.key in PRODUCTS) / own
        operations = sum(event.flops or 0 for event in events if event.key in PRODUCTS)
        peak = operations / (seconds / STEPS) / product_speed(384, 1536)
        shares = (f"{spent.get(phase, 0) / seconds:.1%}"[:-1] for phase in PHASES)
        cells = (*shares, f"{products:.0%}"[:-1], f"{peak:.0%}"[:-1])
        table.add_row(name, f"{seconds / STEPS * 1e3:.0f}", *cells)
    show(table)


if __name__ == "__main__":
    main(sys.argv[1:])
