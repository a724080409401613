"""Any module as a row that trains: parts that run as they were traced, with the model's own parameters and names.

    model, one microbatch --> export --> cuts --> layers, as many as a plan has --> TracedPart, one a layer
    other shapes, evaluation      --> export again, cut at the same places     --> another graph in each part

Read `evenflow_torch.models.exported` first. What differs from the rows that are planned: several tensors may cross
between layers of lists, every tensor has its full name, and linear layers are modules, whose weight gradients can wait.

torch is imported at the top: import this module only where a module is at hand.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from evenflow.errors import InputError
from evenflow.language import _
from evenflow_torch.models.exported.crossings import Cut, DataFlow, data_flow, find_cuts
from evenflow_torch.models.exported.exported import export_forward
from evenflow_torch.models.exported.exported_row import (
    calls_of,
    ends_of,
    full_names,
    inputs_of,
    modules_of,
    name_of,
    pieces_of,
    seams_of,
)
from evenflow_torch.models.exported.layer_groups import Grouping, group_blocks, group_layers
from evenflow_torch.models.exported.segments import SegmentDraft, draft_segment
from evenflow_torch.models.exported.traced_part import TracedPart
from evenflow_torch.models.parts import ModelRow, Part, shared_names
from evenflow_torch.models.trace.equal_layers import clone_module

_MOST_SPLITS = 4
"""Up to so many times the layers of a plan are tried for a model that does not repeat itself."""


def traced_row(
    model: nn.Module,
    microbatch: Any,
    *,
    num_layers: int,
    most_even_layers: int | None = None,
    device: torch.device | str = "cpu",
) -> ModelRow:
    """Return `model` as a row of `num_layers` layers that runs; parameters may be on the meta device.

    `microbatch` is what the model takes: a tensor, a tuple of arguments or a dict of keywords. With `most_even_layers`
    layers are those of `exported_row`. Else they are the modules of its lists (``nn.ModuleList``, ``nn.Sequential``),
    or of one of them, if there are so many; equal blocks; or layers of even work. What was made on a device is made
    on `device`.

    Raises:
        InputError: a model that does not export, or cannot be cut into so many layers.
    """
    return _TracedModel(model, microbatch, num_layers, most_even_layers, torch.device(device)).row


class _TracedModel:
    """A model without its values, to be exported again."""

    def __init__(
        self, model: nn.Module, microbatch: Any, num_layers: int, most_even_layers: int | None, device: torch.device
    ) -> None:
        self._device = device
        self._skeleton = clone_module(model, (), {}, _without_values())
        self._training = {name: module.training for name, module in model.named_modules()}
        lists = _lists(model) if most_even_layers is None else {}
        self._entries = frozenset(entry for entries in lists.values() for entry in entries)
        flow, cuts = self._flow(model, microbatch)
        self._num_cuts = len(cuts)
        self._grouping = _of_lists(lists, cuts, num_layers) or _grouping(
            model, flow, cuts, num_layers, most_even_layers
        )
        self._exported = flow.exported
        self._constants = _constants(microbatch)
        drafts = self._drafts(flow, cuts)
        used = calls_of(drafts)
        self._first = drafts[0].inputs[0].name
        self._prepared = {self._key(microbatch, training=True)}
        names = {id(tensor): name for name, tensor in _named_tensors(model).items()}
        persistent = set(model.state_dict(keep_vars=True))
        self._parts = [TracedPart() for _ in drafts]
        parts = []
        for position, (draft, module) in enumerate(zip(drafts, self._parts, strict=True)):
            module.add(
                draft, _names(flow, draft, names), flow.exported.tensors, persistent, device=device, training=True
            )
            inputs, _named = inputs_of(draft)
            paths = modules_of(draft, used)
            module.path = paths[0] if len(paths) == 1 else ""
            parts.append(
                Part(
                    name=name_of(model, draft, used) or type(model).__name__,
                    module=module,
                    inputs=inputs,
                    batch_inputs=draft.named,
                    position=position,
                )
            )
        self._parts[0].add_unused(model, self._parts)
        has_head, has_tail = self._grouping.head is not None, self._grouping.tail is not None
        self.row = ModelRow(
            name=type(model).__name__,
            head=tuple(parts[:has_head]),
            body=tuple(parts[has_head : len(parts) - has_tail]),
            tail=tuple(parts[len(parts) - has_tail :]),
            whole=model,
            shared=shared_names(tuple(parts)),
            traced=self,
        )

    def input_tensors(self, inputs: Any) -> tuple[torch.Tensor, Mapping[str, torch.Tensor]]:
        """Return what the first part takes of the inputs of a batch, and all of them by name.

        Raises:
            InputError: inputs of another form, or with other values that are no tensors.
        """
        named = self._exported.input_tensors(inputs)
        if _constants(inputs) != self._constants:
            raise InputError(
                value=_constants(inputs),
                rule=_("must be those that the model was traced with, {values}", values=self._constants),
                place=_("batch, values that are no tensors"),
            )
        return named[self._first], named

    def prepare(self, inputs: Any, *, training: bool) -> None:
        """Make the parts run for inputs of one microbatch, in training or evaluation; once for each shape and mode.

        Raises:
            InputError: a model that computes in another way then, whose parts would not fit together.
        """
        key = self._key(inputs, training=training)
        if key in self._prepared:
            return
        self._prepared.add(key)
        for name, module in self._skeleton.named_modules():
            module.training = training and self._training[name]
        with torch.enable_grad():
            flow, cuts = self._flow(self._skeleton, inputs)
        if len(cuts) != self._num_cuts:
            raise _other_cuts()
        names = {id(tensor): name for name, tensor in _named_tensors(self._skeleton).items()}
        for draft, module in zip(self._drafts(flow, cuts), self._parts, strict=True):
            module.add(draft, _names(flow, draft, names), flow.exported.tensors, device=self._device, training=training)

    def _key(self, inputs: Any, *, training: bool) -> tuple[Any, ...]:
        return training, *(tuple(tensor.shape) for tensor in self._exported.input_tensors(inputs).values())

    def _flow(self, model: nn.Module, inputs: Any) -> tuple[DataFlow, tuple[Cut, ...]]:
        flow = data_flow(export_forward(model, tree_map(_example, inputs)))
        return flow, find_cuts(flow, self._entries)

    def _drafts(self, flow: DataFlow, cuts: Sequence[Cut]) -> list[SegmentDraft]:
        return [draft_segment(flow, *ends_of(cuts, span)) for span in self._grouping.spans]


def _other_cuts() -> InputError:
    return InputError(
        rule=_("must compute alike in training and evaluation, and for batches of all shapes"),
        place="model",
        remedy=_("give the model as modules in order, which run as they are"),
    )


def _without_values() -> Callable[[Any], Any]:
    """Return a function that puts each tensor on the meta device, always to the same one; other values stay."""
    made: dict[int, Any] = {}

    def convert(tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor):
            return tensor
        if id(tensor) not in made:
            value = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
            if isinstance(tensor, nn.Parameter):
                value = nn.Parameter(value, requires_grad=tensor.requires_grad)
            made[id(tensor)] = value
        return made[id(tensor)]

    return convert


def _constants(inputs: Any) -> list[Any]:
    return [leaf for leaf in tree_leaves(inputs) if not isinstance(leaf, torch.Tensor)]


def _example(leaf: Any) -> Any:
    """Return a tensor without its values and its history."""
    return torch.empty_like(leaf, device="meta") if isinstance(leaf, torch.Tensor) else leaf


def _lists(model: nn.Module) -> dict[str, list[str]]:
    """Return the paths of the modules in each list that is in no other list, by its path."""
    lists: dict[str, list[str]] = {}
    for path, module in model.named_modules():
        is_list = isinstance(module, nn.ModuleList | nn.Sequential)
        if is_list and not any(path.startswith(f"{outer}.") for outer in lists):
            lists[path] = [f"{path}.{name}" if path else name for name in module._modules]
    return lists


def _named_tensors(model: nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _names(flow: DataFlow, draft: SegmentDraft, names: Mapping[int, str]) -> list[str]:
    """Return the full names of a draft's tensors in order; "" for constants of the trace."""
    full = full_names(flow, draft)
    tensors = (flow.exported.tensors[source] for source in draft.tensors)
    return [name or names.get(id(tensor), "") for name, tensor in zip(full, tensors, strict=True)]


def _of_lists(lists: Mapping[str, Sequence[str]], cuts: Sequence[Cut], num_layers: int) -> Grouping | None:
    """Return the modules of lists as layers: those of all lists, or of one; None where no number is the wanted one."""
    for some in (list(lists.values()), *([modules] for modules in lists.values())):
        entries = {entry for modules in some for entry in modules}
        if len(entries) == num_layers and (grouping := _of_entries(entries, cuts)) is not None:
            return grouping
    return None


def _of_entries(entries: Collection[str], cuts: Sequence[Cut]) -> Grouping | None:
    """Return entries of lists as layers, with what stands between two of them in the latter; None where none can be."""
    begins = [(place, after) for place, cut in enumerate(cuts, 1) if (after := cut.between[1]) != cut.between[0]]
    starts = {entry: place for place, entry in reversed(begins) if entry in entries}
    ends = {before: place for place, cut in enumerate(cuts, 1) if (before := cut.between[0]) != cut.between[1]}
    for entry in entries:
        starts.setdefault(entry, 0)
        ends.setdefault(entry, len(cuts) + 1)
    spans = sorted((starts[entry], ends[entry]) for entry in entries)
    if any(start >= end for start, end in spans) or any(end > start for (_, end), (start, _) in pairwise(spans)):
        return None
    body = [(spans[0][0], spans[0][1]), *((before[1], after[1]) for before, after in pairwise(spans))]
    first, end = body[0][0], body[-1][1]
    return Grouping(
        head=(0, first) if first else None,
        body=tuple(body),
        tail=(end, len(cuts) + 1) if end <= len(cuts) else None,
    )


def _grouping(
    model: nn.Module, flow: DataFlow, cuts: Sequence[Cut], num_layers: int, most_even_layers: int | None
) -> Grouping:
    """Return the pieces as so many layers; see `traced_row`."""
    pieces, seams = pieces_of(model, flow, cuts, counts_frozen=most_even_layers is None), seams_of(cuts)
    if most_even_layers is not None:
        return group_layers(pieces, seams, most_even_layers=most_even_layers)
    blocks = group_blocks(pieces, seams, num_layers=num_layers) if num_layers > 1 else None
    if blocks is not None:
        return blocks
    possible = 0
    for most in range(num_layers, _MOST_SPLITS * num_layers + 1):
        grouping = group_layers(pieces, seams, most_even_layers=most)
        if len(grouping.body) == num_layers:
            return grouping
        possible = possible or len(grouping.body)
    raise InputError(
        value=num_layers,
        rule=_("must be a number of layers that the model can be cut into; it has {possible}", possible=possible),
        place=_("plan, layers"),
        remedy=_("plan for so many layers, or give the model as modules in order"),
    )
