"""The workers of one trial and what they say to each other.

A group of one needs no ``torch.distributed``; the loop is the same code for one worker and many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sentune.lazy_import import LazyModule

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn
    from torch import distributed as dist
else:
    torch, dist = LazyModule("torch"), LazyModule("torch.distributed")

T = TypeVar("T")


class Streams:
    """The random numbers of a step: streams of their own, each with a number."""

    def __init__(self) -> None:
        self._step: tuple[int, ...] = ()

    def start(self, *step: int) -> None:
        """Begin a step, which these numbers tell from any other."""
        self._step = step

    def use(self, stream: int) -> None:
        """Set torch's generators to the beginning of a stream of this step."""
        entropy = [number % 2**64 for number in (*self._step, stream)]
        state = np.random.SeedSequence(entropy).generate_state(1, np.uint64)  # unrelated ones
        torch.manual_seed(int(state[0] >> 1))


@dataclass(frozen=True)
class Group:
    """One worker's view of the group.

    Attributes:
        place: device on which this worker's tensors live; None: the accelerator if there is one.
        shards: into which a batch is cut, each with random numbers of its own; 0: one a worker. An
            elastic group has as many as it may have workers, so that dropout draws the same masks
            however many it has.
    """

    rank: int
    world_size: int
    place: torch.device | str | None = None
    shards: int = 0
    streams: Streams = field(default_factory=Streams, compare=False)

    @classmethod
    def single(cls, device: torch.device | str | None = None, shards: int = 0) -> Group:
        """Return a group of one, on the accelerator if there is one."""
        return cls(0, 1, device, shards)

    @classmethod
    def from_torch_distributed(
        cls, device: torch.device | str | None = None, shards: int = 0
    ) -> Group:
        """Return the default process group, which must have been initialised."""
        if device is None:
            nccl = dist.get_backend() == "nccl"
            device = f"cuda:{torch.cuda.current_device()}" if nccl else "cpu"
        return cls(dist.get_rank(), dist.get_world_size(), device, shards)

    @cached_property
    def device(self) -> torch.device:
        """On which this worker's tensors live."""
        usual = "cuda" if self.place is None and torch.cuda.is_available() else "cpu"
        return torch.device(self.place or usual)

    @property
    def is_first(self) -> bool:
        """Whether this worker writes what is written once."""
        return self.rank == 0

    def sizes(self, rows: int) -> list[int]:
        """Rows of each worker's slice, of which the first ones are larger."""
        return _parts(rows, self.world_size)

    def shards_by_worker(self, rows: int) -> list[range]:
        """Numbers of the shards of each worker that a batch of ``rows`` is cut into."""
        parts = _parts(max(self.world_size, min(self.shards, rows)), self.world_size)
        return [range(*ends) for ends in pairwise([0, *accumulate(parts)])]

    def slice(self, rows: int) -> slice:
        """This worker's part of a global batch of ``rows``."""
        start = self.offset(rows)
        return slice(start, start + self.sizes(rows)[self.rank])

    def offset(self, rows: int) -> int:
        """Index of this worker's first row in a global batch of ``rows``."""
        return sum(self.sizes(rows)[: self.rank])

    def gather(self, local: Tensor, rows: int) -> Tensor:
        """[n, ...] of every worker, as ``slice`` cuts a global batch of ``rows`` -> [B, ...]; see
        ``gather_shares``."""
        return self.gather_shares(local, self.sizes(rows))

    def gather_shares(self, local: Tensor, sizes: list[int]) -> Tensor:
        """[n, ...] of every worker, in the order of ranks -> [sum(sizes), ...] on each.

        The gradient of a gathered row is summed over the workers and goes back to the one it came
        from. A plain ``all_gather`` passes none: with the local rows put back, the gradient would
        be 1/world_size of the right one.

        Args:
            local: rows of this worker.
            sizes: rows of each worker, the same on all: unequal numbers of them, or none.
        """
        if self.world_size == 1:
            return local
        if sizes[self.rank] != len(local):
            own = f"{sizes[self.rank]} of {sum(sizes)} belong to this worker"
            raise ValueError(f"{len(local)} local rows, but {own}")
        from sentune.training.gradients import Gather  # needs torch to be defined

        apply: Callable[..., Tensor] = Gather.apply  # without types in torch
        return apply(local, sizes, self.rank)

    def all_reduce_sum(self, value: Tensor) -> Tensor:
        """Sum over the workers, without gradient; ``value`` itself stays as it is."""
        total = value.detach().clone()
        if self.world_size > 1:
            dist.all_reduce(total)
        return total

    def all_reduce_mean(self, value: Tensor) -> Tensor:
        """Mean over the workers, without gradient."""
        return self.all_reduce_sum(value) / self.world_size

    def agree(self, value: int) -> int:
        """Return the first worker's ``value``, on every worker."""
        if self.world_size == 1:
            return value
        box = torch.tensor(value, dtype=torch.int64, device=self.device)
        dist.broadcast(box, src=0)
        return int(box)

    def broadcast_object(self, value: T, source: int = 0) -> T:
        """Return the picklable ``value`` of the worker ``source``, on every worker."""
        if self.world_size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=source, device=self.device)
        return box[0]

    def collect(self, value: T) -> list[T]:
        """Return every worker's picklable ``value``, in the order of ranks, on every worker."""
        return [self.broadcast_object(value, source) for source in range(self.world_size)]

    def add_up(self, array: NDArray[Any]) -> None:
        """Replace a numpy array by the sum of all workers' arrays, in its own precision."""
        if self.world_size > 1:
            own = torch.from_numpy(array)
            total = own.to(self.device)  # on the CPU, the array itself
            dist.all_reduce(total)
            own.copy_(total)

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Put the mean of all workers' gradients on each of them.

        A parameter without a gradient on some workers counts as zero there; one without a gradient
        on all of them keeps none, as an operator that no row of a batch needs.
        DistributedDataParallel wants every parameter to take part in every step on every worker.
        """
        if self.world_size == 1:
            return
        trained = [p for p in parameters if p.requires_grad]
        used = [p.grad is not None for p in trained]
        counts = torch.tensor(used, dtype=torch.int32, device=self.device)
        dist.all_reduce(counts)
        grads: list[Tensor] = []
        for parameter, workers in zip(trained, counts.tolist(), strict=True):
            if workers:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                grads.append(parameter.grad)
        if grads:
            flat = torch.nn.utils.parameters_to_vector(grads)
            dist.all_reduce(flat)
            flat /= self.world_size
            torch.nn.utils.vector_to_parameters(flat, grads)

    def send_parameters(self, module: nn.Module) -> None:
        """Put the first worker's parameters on all of them."""
        if self.world_size > 1:
            for parameter in module.parameters():
                dist.broadcast(parameter.data, src=0)


def _parts(rows: int, parts: int) -> list[int]:
    """Sizes of parts as equal as they can be; the first ones take the remainder."""
    share, rest = divmod(rows, parts)
    return [share + (part < rest) for part in range(parts)]
