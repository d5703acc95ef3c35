"""The workers of one trial and what they say to each other.

A group of one needs no ``torch.distributed``; the loop is the same code for one worker and many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch import distributed as dist
from torch.autograd.function import once_differentiable

T = TypeVar("T")


@dataclass(frozen=True)
class Group:
    """One worker's view of the group.

    Attributes:
        rank: of this worker, from 0.
        world_size: number of workers.
        device: on which this worker's tensors live.
    """

    rank: int
    world_size: int
    device: torch.device

    @classmethod
    def single(cls, device: torch.device | str | None = None) -> Group:
        """A group of one, on the accelerator if there is one."""
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        return cls(0, 1, torch.device(device))

    @classmethod
    def from_torch_distributed(cls, device: torch.device | str | None = None) -> Group:
        """The default process group, which must have been initialised."""
        if device is None:
            nccl = dist.get_backend() == "nccl"
            device = f"cuda:{torch.cuda.current_device()}" if nccl else "cpu"
        return cls(dist.get_rank(), dist.get_world_size(), torch.device(device))

    @property
    def is_first(self) -> bool:
        """Whether this worker writes what is written once."""
        return self.rank == 0

    def sizes(self, rows: int) -> list[int]:
        """Rows of each worker's slice; the first ones take the remainder."""
        share, rest = divmod(rows, self.world_size)
        return [share + (rank < rest) for rank in range(self.world_size)]

    def slice(self, rows: int) -> slice:
        """This worker's part of a global batch of ``rows``."""
        start = self.offset(rows)
        return slice(start, start + self.sizes(rows)[self.rank])

    def offset(self, rows: int) -> int:
        """Index of this worker's first row in a global batch of ``rows``."""
        return sum(self.sizes(rows)[: self.rank])

    def gather(self, local: Tensor, rows: int | None = None) -> Tensor:
        """[n, ...] of every worker, in the order of ranks -> [B, ...] on each.

        The gradient of a gathered row is summed over the workers and goes back to the one it came
        from. A plain ``all_gather`` passes none: with the local rows put back, the gradient would
        be 1/world_size of the right one.

        Args:
            local: rows of this worker; workers may have unequal numbers of them, or none.
            rows: the global number of rows, where they were cut by ``slice``; saves asking the
                other workers for theirs.
        """
        if self.world_size == 1:
            return local
        sizes = self._exchange_sizes(len(local)) if rows is None else self.sizes(rows)
        if sizes[self.rank] != len(local):
            message = (
                f"{len(local)} local rows, but {sizes[self.rank]} of {rows} belong to this worker"
            )
            raise ValueError(message)
        return _Gather.apply(local, sizes, self.rank)

    def _exchange_sizes(self, rows: int) -> list[int]:
        sizes = torch.zeros(self.world_size, dtype=torch.int64, device=self.device)
        sizes[self.rank] = rows
        dist.all_reduce(sizes)
        return sizes.tolist()

    def all_reduce_sum(self, value: Tensor) -> Tensor:
        """Sum over the workers, without gradient; ``value`` itself stays as it is."""
        total = value.detach().clone()
        if self.world_size > 1:
            dist.all_reduce(total)
        return total

    def all_reduce_mean(self, value: Tensor) -> Tensor:
        """Mean over the workers, without gradient."""
        return self.all_reduce_sum(value) / self.world_size

    def barrier(self) -> None:
        """Returns when every worker has called it."""
        if self.world_size == 1:
            return
        if self.device.type == "cuda":
            dist.barrier(device_ids=[self.device.index or 0])
        else:
            dist.barrier()

    def agree(self, value: int) -> int:
        """The first worker's ``value``, on every worker."""
        if self.world_size == 1:
            return value
        box = torch.tensor(value, dtype=torch.int64, device=self.device)
        dist.broadcast(box, src=0)
        return int(box)

    def broadcast_object(self, value: T) -> T:
        """The first worker's picklable ``value``, on every worker."""
        if self.world_size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, device=self.device)
        return box[0]


class _Gather(torch.autograd.Function):
    """all_gather of unequal slices, padded to the longest; backward sums and takes the own part."""

    @staticmethod
    def forward(ctx: Any, local: Tensor, sizes: list[int], rank: int) -> Tensor:
        ctx.start, ctx.rows = sum(sizes[:rank]), sizes[rank]
        padded = local.new_zeros(max(sizes), *local.shape[1:])
        padded[: len(local)] = local
        parts = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        total = gradient.contiguous().clone()
        dist.all_reduce(total)
        return total[ctx.start : ctx.start + ctx.rows], None, None
