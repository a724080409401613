"""Batches of any form, as microbatches: what the first stage takes, what parts take by name, targets.

    (inputs, targets)    with a loss function; inputs are a tensor, or what the model takes: a tuple or a dict
    inputs               without one: the model itself returns the loss, of labels among its inputs

The first tensor of the inputs says how many samples there are. Tensors with as many entries in their first dimension
are split, all others go to every microbatch whole, such as position ids of one row.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from evenflow.errors import InputError
from evenflow.language import _
from evenflow_torch.models.parts import ModelRow
from evenflow_torch.run.engine.torch_names import tree_leaves, tree_map_only

Batch = Any
"""Inputs and targets, each of shape [batch, ...], or other forms that hold tensors; see above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """A batch as its pipeline reads it."""

    inputs: Any
    """As the model takes it."""
    hidden: Tensor
    """What the first part takes."""
    named: Mapping[str, Tensor]
    """What parts take by keyword, where they name it."""
    targets: Any
    """What the loss function takes beside the output; the inputs where the model returns the loss."""

    @property
    def count(self) -> int:
        """Number of samples: of the first tensor of the inputs."""
        first = next((leaf for leaf in tree_leaves(self.inputs) if isinstance(leaf, Tensor)), self.hidden)
        return len(first) if first.dim() else 0

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of all tensors."""
        return tuple(tuple(leaf.shape) for leaf in tree_leaves((self.inputs, self.targets)) if isinstance(leaf, Tensor))

    def split(self, num_microbatches: int) -> "list[Samples]":
        """Return the microbatches: of equal numbers of samples, or the first ones of one more."""
        size, more = divmod(self.count, num_microbatches)
        starts = [index * size + min(index, more) for index in range(num_microbatches + 1)]

        def part(index: int) -> Callable[[Any], Any]:
            def of_tree(tree: Any) -> Any:
                return tree_map_only(Tensor, of_tensor, tree)

            def of_tensor(tensor: Tensor) -> Tensor:
                is_split = tensor.dim() > 0 and len(tensor) == self.count
                return tensor[starts[index] : starts[index + 1]] if is_split else tensor

            return of_tree

        return [
            Samples(
                inputs=(of := part(index))(self.inputs),
                hidden=of(self.hidden),
                named=of(dict(self.named)),
                targets=of(self.targets),
            )
            for index in range(num_microbatches)
        ]


def split_form(batch: Batch, *, has_loss: bool, place: str) -> tuple[Any, Any]:
    """Return inputs and targets; None for these where the model returns the loss.

    Raises:
        InputError: not two where there is a loss function.
    """
    if not has_loss:
        return batch, None
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise _wrong_form(batch, place)
    return batch[0], batch[1]


def first_microbatch(inputs: Any, num_microbatches: int) -> Any:
    """Return the inputs of the first microbatch."""
    first = next((leaf for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor)), torch.empty(0))
    return Samples(inputs=inputs, hidden=first, named={}, targets=None).split(num_microbatches)[0].inputs


class BatchReader:
    """Reads batches for the parts of a row."""

    def __init__(self, row: ModelRow, *, has_loss: bool) -> None:
        self._traced = row.traced
        self.has_loss = has_loss
        """Whether there is a loss function; else the model returns the loss."""
        self._taken = {name for part in row.parts for name in part.batch_inputs}

    def read(self, batch: Batch, *, place: str) -> Samples:
        """Return a batch as samples.

        Raises:
            InputError: another form; inputs that no part takes.
        """
        inputs, targets = split_form(batch, has_loss=self.has_loss, place=place)
        if self._traced is not None:
            hidden, named = self._traced.input_tensors(inputs)
            return Samples(inputs=inputs, hidden=hidden, named=named, targets=targets if self.has_loss else inputs)
        if self.has_loss and targets is None:
            raise _wrong_form(batch, place)
        if isinstance(inputs, Tensor):
            return Samples(inputs=inputs, hidden=inputs, named={}, targets=targets if self.has_loss else inputs)
        values = list(inputs.values()) if isinstance(inputs, Mapping) else []
        if not values or not all(isinstance(value, Tensor) for value in values):
            raise _wrong_form(batch, place)
        first, *others = inputs
        unknown = [name for name in others if name not in self._taken]
        if unknown:
            raise InputError(
                value=", ".join(unknown),
                rule=_("must be taken by some module, as an argument of this name of its forward"),
                place=place,
                remedy=_("leave it out, or name it in the Part that takes it: batch_inputs"),
            )
        named = {name: inputs[name] for name in others}
        return Samples(inputs=inputs, hidden=inputs[first], named=named, targets=targets if self.has_loss else inputs)


def _wrong_form(batch: object, place: str) -> InputError:
    kinds = ", ".join(type(value).__name__ for value in batch) if isinstance(batch, tuple | list) else ""
    return InputError(
        value=f"{type(batch).__name__}({kinds})" if kinds else type(batch).__name__,
        rule=_("must be inputs and targets: two tensors, or a dict of tensors by name in place of the first"),
        place=place,
        remedy=_("for example (batch['input_ids'], batch['labels'])"),
    )


def on_device(tree: Any, device: torch.device) -> Any:
    """Return tensors on a device, without waiting: from pinned memory the copies run beside the host."""
    return tree_map_only(Tensor, lambda tensor: tensor.to(device, non_blocking=True), tree)


def names_taken(parts: Sequence[Any]) -> set[str]:
    """Return the names of what parts take of a batch."""
    return {name for part in parts for name in part.batch_inputs}
