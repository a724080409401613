"""What a package on torch.distributed.pipelining builds, rank by rank, in a group that sends nothing."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore


class Mesh:
    """The mesh of a pipeline, as far as stages ask it."""

    def __init__(self, rank: int, size: int) -> None:
        self._rank, self._size = rank, size

    def get_local_rank(self) -> int:
        """Return the rank."""
        return self._rank

    def size(self) -> int:
        """Return the number of ranks."""
        return self._size

    def get_group(self, _name: str) -> Any:
        """Return the group of all ranks."""
        return dist.group.WORLD


@contextmanager
def rank_of(rank: int, size: int) -> Iterator[Mesh]:
    """Be one rank of a group while the block runs."""
    dist.init_process_group("fake", rank=rank, world_size=size, store=FakeStore())
    try:
        yield Mesh(rank, size)
    finally:
        dist.destroy_process_group()


def layer_modules(part: nn.Module, prefix: str = "") -> list[str]:
    """Return the names of a part's modules as plans name them: children, and layers instead of their list."""
    names = []
    for name, child in part.named_children():
        if isinstance(child, nn.ModuleDict | nn.ModuleList) or type(child).__name__ in ("ModuleDict", "ModuleList"):
            names += [f"{prefix}{name}.{layer}" for layer, _module in child.named_children()]
        elif child is not None:
            names.append(prefix + name)
    return names


def checkpointed(part: nn.Module) -> list[str]:
    """Return the names of the modules that run under a checkpoint: ``layers.3`` or ``layers.3.attention``.

    Where a policy chooses operators, a star follows.
    """
    inner = "._checkpoint_wrapped_module"
    found = []
    for name, _module in part.named_modules():
        if name.endswith(inner):
            by_operators = "context_fn" in part.get_submodule(name.removesuffix(inner)).checkpoint_fn.keywords
            found.append(name.replace(inner, "") + "*" * by_operators)
    return found


def order_of(schedule: Any) -> list[str]:
    """Return the lines of the order that a runtime has loaded."""
    return [",".join(map(str, schedule.pipeline_order[rank])) for rank in sorted(schedule.pipeline_order)]


def main(version: str, build: Callable[[Path], dict[str, Any]], **also: Any) -> None:
    """Build every case of the folder that is named on the command line, and write what came out beside it."""
    folder = Path(sys.argv[1])
    seen: dict[str, Any] = {}
    for case in sorted((folder / "cases").iterdir()):
        try:
            seen[case.name] = build(case)
        except Exception as error:  # noqa: BLE001  # whatever it raises is its answer
            seen[case.name] = {"error": f"{type(error).__name__}: {error}"}
            if dist.is_initialized():
                dist.destroy_process_group()
    text = json.dumps({"version": version, "cases": seen, **also})
    (folder / "seen.json").write_text(text, encoding="utf-8")
