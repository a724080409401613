"""Parameters as Hugging Face keeps them: safetensors files with the names of the unsplit model.

model.safetensors                     all of them
model.safetensors.index.json          which file each is in
model-00001-of-00002.safetensors      what a rank writes
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch.distributed as dist
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.distributed.tensor import DTensor

from evenflow.errors import InputError
from evenflow.language import _

_ONE, _INDEX = "model.safetensors", "model.safetensors.index.json"


def read_tensors(
    folder: Path, names: Sequence[str], tied: Sequence[Sequence[str]] = (), *, optional: Sequence[str] = ()
) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of these names, each read when it is asked for; of `tied` names one is enough.

    Raises:
        InputError: no such files, or ones that lack a name that is not `optional`.
    """
    files = _files_of(folder)
    others = {name: group for group in tied for name in group}
    for name in names:
        stored = next((other for other in (name, *others.get(name, ())) if other in files), None)
        if stored is None:
            if name in optional:
                continue
            raise InputError(value=name, rule=_("must be among the tensors of the files"), place=str(folder))
        try:
            with safe_open(files[stored], framework="pt") as file:
                yield name, file.get_tensor(stored)
        except (OSError, SafetensorError) as error:
            raise InputError(
                value=str(files[stored]), rule=_("must be a safetensors file: {error}", error=error), place=_("weights")
            ) from None


def write_pretrained(
    state: Mapping[str, Any],
    folder: Path,
    *,
    tied: Sequence[Sequence[str]],
    rank: int,
    num_ranks: int,
    is_first_device: bool,
) -> None:
    """Write a file with the tensors of this rank, and the index of all; every process of the training calls it.

    What devices share is put together; of `tied` names the first is written. Where several processes are the first
    device of a rank, as under tensor parallelism, one of them writes.
    """
    first = {name: group[0] for group in tied for name in group}
    tensors: dict[str, Tensor] = {}
    for name, value in state.items():
        whole = value.full_tensor() if isinstance(value, DTensor) else value  # every device takes part
        if is_first_device and first.get(name, name) not in tensors:
            tensors[first.get(name, name)] = whole.detach().cpu().clone()  # several may share memory
    file = _name(rank, num_ranks) if is_first_device else None
    told: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(told, (file, list(tensors), sum(tensor.nbytes for tensor in tensors.values())))
    files = {name: (names, size) for name, names, size in reversed(told) if name is not None}
    if file is not None and dist.get_rank() == next(at for at, (name, *_rest) in enumerate(told) if name == file):
        folder.mkdir(parents=True, exist_ok=True)
        save_file(tensors, folder / file, metadata={"format": "pt"})
    if dist.get_rank() == 0:
        weight_map = {name: place for place, (names, _size) in files.items() for name in names}
        index = {"metadata": {"total_size": sum(size for _names, size in files.values())}, "weight_map": weight_map}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    dist.barrier()


def _name(rank: int, num_ranks: int) -> str:
    return f"model-{rank + 1:05}-of-{num_ranks:05}.safetensors"


def _files_of(folder: Path) -> dict[str, Path]:
    """Return the file of every tensor by its name."""
    if (folder / _INDEX).is_file():
        index: Any = json.loads((folder / _INDEX).read_text(encoding="utf-8"))
        return {name: folder / file for name, file in index["weight_map"].items()}
    file = folder if folder.is_file() else folder / _ONE
    if not file.is_file():
        raise InputError(
            value=str(folder),
            rule=_("must be a folder with {one} or {index}", one=_ONE, index=_INDEX),
            place=_("weights"),
            remedy=_("give the folder of a model of Hugging Face, or what pipe.save_pretrained has written"),
        )
    with safe_open(file, framework="pt") as opened:
        return dict.fromkeys(opened.keys(), file)
