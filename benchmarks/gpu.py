"""What a GPU makes of the training, the box table and several small trials at once.

    python benchmarks/gpu.py            on a GPU, about ten minutes: bert-base's shape, new weights
    python benchmarks/gpu.py --small    on any machine, seconds: tiny shapes, as its test runs it

Three tables. Training of each method in bfloat16, batch 512 to 8,192, in parts of 512 above that
(GradCache), of 512 for two methods with torch.compile too: examples a second, peak memory, and the
share of the roofline, that is the operations of the encoder's weights (2 a weight and token
forward, 4 backward) at the speed of torch's product on this device. The box overlap table: the
broadcast, the matrix form that training uses, and where there is Triton a kernel of its own,
forward alone; each with its largest difference from the broadcast in float64. Small trials of one
shape: one after another, each in a process of its own at the same time (fractions of the GPU), and
stepped together by torch.func.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from box_overlap import broadcast_table, our_table
from measure import show, table_of
from rich.table import Table
from torch import Tensor, multiprocessing, nn
from torch.func import functional_call, grad, stack_module_state, vmap

from sentune.corpora.batches import SharedSource
from sentune.methods import TRAINED
from sentune.training.group import Group
from sentune.training.inputs import BUILTIN, InputMaker
from sentune.training.recipes import build, recipe_of
from sentune.training.settings import split
from sentune.training.step import Stepper, make_optimizer

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
LENGTH, PART = 64, 512


@dataclass(frozen=True)
class Size:
    """Shapes of a run; ``steps`` are timed, after two that warm up; ``hidden``: of InferSent.

    ``compiled``: methods that are measured with torch.compile, too, at the smallest batch.
    """

    encoder: str
    hidden: int
    batches: tuple[int, ...]
    boxes: tuple[int, int]
    steps: int
    trials: int
    trial_steps: int
    compiled: tuple[str, ...]


BASE = "builtin:tiny?layers=12&width=768&heads=12&inner=3072"
LARGE = Size(BASE, 2048, (512, 2048, 8192), (4096, 64), 4, 8, 200, ("gumbel", "simcse"))
TINY = "builtin:tiny?layers=1&width=16&heads=2&inner=32"
SMALL = Size(TINY, 16, (8,), (32, 4), 1, 2, 2, ())


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Mean wall time of a call on the device, after two that warm up."""
    for _ in range(2):
        work()
    _wait()
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    _wait()
    return (time.perf_counter() - start) / repeats


def _wait() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def product_speed(rows: int, kind: torch.dtype) -> float:
    """Operations a second of torch's product of square matrices."""
    a, b = (torch.randn(rows, rows, device=DEVICE, dtype=kind) for _ in range(2))
    return 2 * rows**3 / seconds(lambda: a @ b, 10)


def trainer(
    name: str, batch: int, size: Size, scratch: Path, *, compiled: bool
) -> tuple[Callable[[], object], Callable[[], float]]:
    """A step of a method in bfloat16, and the operations of one, known after the first.

    A part that GradCache encodes without gradient counts 2 operations a weight and token.
    """
    kind = TRAINED[name]
    inputs = InputMaker(max_length=LENGTH, cache=scratch, limit=max(batch, 256)).inputs(
        kind,
        (BUILTIN[kind.kind][0],),
        encoder=size.encoder,
        decoder="builtin:tiny",
        vectors="builtin:ppmi",
    )
    given = {"batch_size": batch, "max_length": LENGTH, "precision": "bfloat16"}
    given |= {"hidden_size": size.hidden} if name == "infersent" else {}
    own, settings = split(given | ({"micro_batch": PART} if batch > PART else {}), kind)
    method = build(kind, own, settings, inputs.folder, 0).to(DEVICE).train()
    seen = [0]
    text_encoder = getattr(method, "encoder", None)
    model = getattr(text_encoder, "model", None)
    weights = sum(p.numel() for p in model.parameters()) if isinstance(model, nn.Module) else 0
    if isinstance(model, nn.Module):
        weights -= model.get_input_embeddings().weight.numel()
        model.register_forward_pre_hook(
            lambda _module, _args, kwargs: seen.__setitem__(
                0, seen[0] + kwargs["input_ids"].numel() * (6 if torch.is_grad_enabled() else 2)
            ),
            with_kwargs=True,
        )
        if compiled:
            model.compile(dynamic=True)
    group = Group.single(DEVICE)
    backward = recipe_of(kind).backward(method, settings, group, inputs.folder)
    stepper = Stepper(method, make_optimizer(method, settings), settings, group, backward)
    batches, calls = SharedSource(inputs.tokens[0].load()).batches(batch, seed=0), [0]

    def step() -> None:
        calls[0] += 1
        stepper.step(next(batches).columns, factor=1.0, seed=(0,))

    return step, lambda: weights * seen[0] / calls[0]


def training(size: Size) -> Table:
    """A row for each method, batch and way to call the encoder."""
    columns = ("method", "batch", "compiled", "examples / s", "peak MiB", "of the roofline")
    table = table_of("Training, bfloat16", *columns)
    speed = product_speed(4096 if size is LARGE else 128, torch.bfloat16)
    for name in TRAINED:
        for batch in size.batches:
            both = name in size.compiled and batch == size.batches[0]
            for compiled in (False, True) if both else (False,):
                gc.collect()
                if DEVICE.type == "cuda":
                    torch.cuda.reset_peak_memory_stats()
                with tempfile.TemporaryDirectory() as scratch:
                    step, operations = trainer(name, batch, size, Path(scratch), compiled=compiled)
                    spent = seconds(step, size.steps)
                peak = torch.cuda.max_memory_allocated() / 2**20 if DEVICE.type == "cuda" else 0
                share = operations() / spent / speed
                cells = (f"{batch:,}", "yes" if compiled else "no", f"{batch / spent:,.1f}")
                table.add_row(name, *cells, f"{peak:,.0f}", f"{share:.1%}" if share else "-")
                print(f"{name}, batch {batch:,}: {spent:.3f} s a step", flush=True)
                del step, operations
    return table


def boxes(size: Size) -> Table:
    """Milliseconds of the overlap table of B x B boxes at T = 1."""
    count, width = size.boxes
    columns = ("", "forward, ms", "with gradient, ms", "peak MiB", "largest difference")
    table = table_of(f"Box overlap table, B = {count}, d = {width}", *columns)
    lower = [0.5 * torch.randn(count, width, device=DEVICE) for _ in range(2)]
    corners = [c for z in lower for c in (z, z + 1 + 2 * torch.rand_like(z))]
    ways = {"broadcast": broadcast_table, "matrix form": our_table}
    if DEVICE.type == "cuda" and find_spec("triton"):
        from gpu_kernel import log_overlap

        ways["Triton"] = log_overlap
    few = [corner[:256] for corner in corners]
    exact = broadcast_table(*(corner.double() for corner in few), 1.0)
    for name, way in ways.items():
        difference = (way(*few, 1.0) - exact).abs().max()
        if DEVICE.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        forward, both = seconds(lambda w=way: w(*corners, 1.0), 5), None
        if name != "Triton":
            leaves = [c.clone().requires_grad_() for c in corners]
            both = seconds(lambda w=way, x=leaves: w(*x, 1.0).mean().backward(), 5)
        peak = torch.cuda.max_memory_allocated() / 2**20 if DEVICE.type == "cuda" else 0
        shown = "-" if both is None else f"{1e3 * both:.2f}"
        cells = (f"{1e3 * forward:.2f}", shown, f"{peak:,.0f}", f"{difference:.1e}")
        table.add_row(name, *cells)
    return table


def small_trial(seed: int, size: Size, folder: str) -> None:
    """One small trial: the built-in encoder, SimCSE, batch 64."""
    torch.manual_seed(seed)
    built_in = replace(size, encoder="builtin:tiny")
    step, _ = trainer("simcse", 64, built_in, Path(folder), compiled=False)
    for _ in range(size.trial_steps):
        step()
    _wait()


def stacked_trials(size: Size) -> None:
    """The same number of encoders of one shape, a step of all at once by vmap.

    A transformer layer of torch's own stands for the encoder: Hugging Face's masks branch on their
    values, which vmap refuses.
    """
    layers = [
        nn.TransformerEncoderLayer(64, 4, 256, 0.0, batch_first=True) for _ in range(size.trials)
    ]
    parameters, buffers = stack_module_state([layer.to(DEVICE) for layer in layers])
    base = layers[0]
    rows = torch.randn(size.trials, 192, 16, 64, device=DEVICE)

    def loss(own: dict[str, Tensor], fixed: dict[str, Tensor], x: Tensor) -> Tensor:
        found = functional_call(base, (own, fixed), (x,)).mean(1)
        anchor, positive, negative = nn.functional.normalize(found, dim=1).chunk(3)
        scores = anchor @ torch.cat([positive, negative]).T / 0.05
        return nn.functional.cross_entropy(scores, torch.arange(64, device=DEVICE))

    gradients: Any = vmap(grad(loss))
    for _ in range(size.trial_steps):
        found = gradients(parameters, buffers, rows)
        with torch.no_grad():
            for name, value in parameters.items():
                value -= 1e-3 * found[name]
    _wait()


def trials(size: Size) -> Table:
    """Trials an hour, one at a time, side by side, and stacked."""
    table = table_of(f"{size.trials} trials of {size.trial_steps} steps", "", "trials / hour")
    with tempfile.TemporaryDirectory() as folder:
        small_trial(0, size, folder)  # makes the corpus and the encoder
        ways: dict[str, Callable[[], object]] = {
            "one at a time": lambda: [small_trial(i, size, folder) for i in range(size.trials)],
            "processes side by side, with their start": lambda: multiprocessing.spawn(
                small_trial, (size, folder), nprocs=size.trials
            ),
            "stacked, torch's own layer": lambda: stacked_trials(size),
        }
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            table.add_row(name, f"{3600 * size.trials / (time.perf_counter() - start):,.0f}")
    return table


def main(arguments: list[str] | None = None) -> None:
    """Prints the three tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="tiny shapes")
    small = parser.parse_args(arguments).small
    if DEVICE.type != "cuda" and not small:
        print("no GPU here: python benchmarks/gpu.py --small runs on a CPU")
        return
    size = SMALL if small else LARGE
    name = torch.cuda.get_device_name() if DEVICE.type == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}")
    for table in (training(size), boxes(size), trials(size)):
        show(table)


if __name__ == "__main__":
    main()
