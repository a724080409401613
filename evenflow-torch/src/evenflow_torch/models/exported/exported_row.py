"""Turns any module that torch exports into a row of layers, cut where a single tensor crosses.

torch is imported at the top: import this module only where a module is at hand.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Any

import torch
from torch import fx, nn

from evenflow.errors import InputError
from evenflow.language import _
from evenflow_torch.models.exported.crossings import Cut, DataFlow, call_stack, data_flow, find_cuts
from evenflow_torch.models.exported.even_layers import Seam
from evenflow_torch.models.exported.exported import export_forward
from evenflow_torch.models.exported.layer_groups import GraphPiece, Span, group_layers
from evenflow_torch.models.exported.segments import Segment, SegmentDraft, draft_segment
from evenflow_torch.models.parts import ModelRow, Part
from evenflow_torch.models.trace.capture import capture
from evenflow_torch.models.trace.layer_stack import differentiable


def exported_row(model: nn.Module, example_batch: Any, *, most_even_layers: int) -> ModelRow:
    """Return a module as a row of layers; the arguments are those of `export_forward`.

    Blocks that repeat themselves become equal layers, what comes before and after them head and tail, or further layers
    where it is more work than a block. A model without repetition becomes at most `most_even_layers` layers of even
    work, one without a place to cut a single one. A parameter that several layers use, such as tied embeddings, is
    in each of them, and counted in each: every stage that has one keeps a copy.

    Raises InputError for a model that does not export or that has nothing to train.
    """
    flow = data_flow(export_forward(model, example_batch))
    cuts = find_cuts(flow)
    grouping = group_layers(pieces_of(model, flow, cuts), seams_of(cuts), most_even_layers=most_even_layers)
    layers = _layers(model, flow, [draft_segment(flow, *ends_of(cuts, span)) for span in grouping.spans])
    return ModelRow(
        name=type(model).__name__,
        head=tuple(layers[:1]) if grouping.head else (),
        body=tuple(layers[grouping.head is not None : len(layers) - (grouping.tail is not None)]),
        tail=tuple(layers[-1:]) if grouping.tail else (),
    )


def seams_of(cuts: Sequence[Cut]) -> list[Seam]:
    """Return the seams that cuts are."""
    return [Seam(depth=cut.depth, size_bytes=cut.size_bytes) for cut in cuts]


def ends_of(cuts: Sequence[Cut], span: Span) -> tuple[Cut | None, Cut | None]:
    """Return the cuts in front of and behind a stretch; None for an end of the model."""
    first, end = span
    return (cuts[first - 1] if first else None, cuts[end - 1] if end <= len(cuts) else None)


def pieces_of(
    model: nn.Module, flow: DataFlow, cuts: Sequence[Cut], *, counts_frozen: bool = False
) -> list[GraphPiece]:
    """Return the pieces between cuts with their forward and backward work, which is counted once for equal pieces.

    With `counts_frozen` parameters that are not trained count as those that are, so that frozen blocks are blocks.

    Raises:
        InputError: nothing is to be trained.
    """
    known: dict[Hashable, GraphPiece] = {}
    pieces = []
    has_trained = False
    for before, after in pairwise((None, *cuts, None)):
        draft = draft_segment(flow, before, after)
        trained = _counted(flow, draft) if counts_frozen else {}
        key = (draft.key(flow)[0], bool(trained)) if counts_frozen else draft.key(flow)
        if key not in known:
            is_trained = bool(trained) or any(flow.exported.tensors[source].requires_grad for source in draft.tensors)
            known[key] = GraphPiece(
                key=len(known), flops=_flops(flow, draft, trained) if is_trained else 0, is_trained=is_trained
            )
        pieces.append(known[key])
        has_trained = has_trained or any(flow.exported.tensors[source].requires_grad for source in draft.tensors)
    if not has_trained:
        raise InputError(
            value=type(model).__name__,
            rule=_("must use a parameter of its own that requires a gradient"),
            place="model",
        )
    return pieces


def _counted(flow: DataFlow, draft: SegmentDraft) -> dict[fx.Node, nn.Parameter]:
    """Return parameters that are trained in place of those of a draft."""
    return {
        source: nn.Parameter(torch.empty_like(flow.exported.tensors[source], device="meta"))
        for source in draft.tensors
        if source in flow.exported.parameters and flow.exported.tensors[source].is_floating_point()
    }


def _flops(flow: DataFlow, draft: SegmentDraft, trained: Mapping[fx.Node, nn.Parameter]) -> int:
    inputs, named = inputs_of(draft)
    tensors = {
        str(node.target): trained.get(source, flow.exported.tensors[source]) for source, node in draft.tensors.items()
    }
    module = Segment(draft.graph, tensors=tensors, named=draft.named)
    return sum(operator.cost.flops for operator in capture(module, differentiable(inputs), named).operators)


def _layers(model: nn.Module, flow: DataFlow, drafts: Sequence[SegmentDraft]) -> list[Part]:
    """Turn drafts into layers; equal layers name their parameters inside as the first of them does."""
    used = calls_of(drafts)
    names_inside: dict[Hashable, list[str]] = {}
    layers = []
    for position, draft in enumerate(drafts):
        full = full_names(flow, draft)
        root = _common_path([name.rpartition(".")[0] for name in full if name])
        own = [name.removeprefix(f"{root}.") or f"buffer_{place}" for place, name in enumerate(full)]
        inside = names_inside.setdefault(draft.key(flow), own)
        paths = modules_of(draft, used) or tuple(filter(None, full))
        inputs, named_inputs = inputs_of(draft)
        layers.append(
            Part(
                name=name_of(model, draft, used) or " + ".join(paths),
                module=draft.module(flow, inside),
                position=position,
                inputs=inputs,
                named_inputs=named_inputs,
                path=root,
                paths={path.removeprefix(f"{root}."): path for path in paths} if paths != (root,) else {},
                names={inner: name for inner, name in zip(inside, full, strict=True) if name},
            )
        )
    return layers


def calls_of(drafts: Sequence[SegmentDraft]) -> Counter[str]:
    """Return in how many drafts each module has operators."""
    return Counter(path for draft in drafts for path in {path for node in draft.operators for path in call_stack(node)})


def name_of(model: nn.Module, draft: SegmentDraft, used: Counter[str]) -> str:
    """Return the name of a draft: of the modules that run in it, and of what kind it is where that is one."""
    modules = modules_of(draft, used)
    return (
        f"{type(model.get_submodule(modules[0])).__name__}.{modules[0]}" if len(modules) == 1 else " + ".join(modules)
    )


def full_names(flow: DataFlow, draft: SegmentDraft) -> list[str]:
    """Return parameters' full names in order, "" for buffers; a tied one is named in the module that uses it."""
    full = []
    for source, node in draft.tensors.items():
        names = flow.exported.parameters.get(source, ("",))
        stack = call_stack(next(iter(node.users)))
        full.append(next((name for name in names if name.rpartition(".")[0] in stack), names[0]))
    return full


def _common_path(paths: Sequence[str]) -> str:
    """Return the path of the innermost module that all paths are in."""
    levels = zip(*(path.split(".") for path in paths), strict=False)
    return ".".join(level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels))


def modules_of(draft: SegmentDraft, used: Counter[str]) -> tuple[str, ...]:
    """Return the outermost modules that run wholly in this layer; none where the model calls no modules."""
    outermost = (next((path for path in call_stack(node) if path and used[path] == 1), "") for node in draft.operators)
    return tuple(dict.fromkeys(path for path in outermost if path))


def inputs_of(draft: SegmentDraft) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a draft's positional and named inputs, on the meta device."""

    def empty(node: fx.Node) -> torch.Tensor:
        value = node.meta["val"]
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")

    first, others = draft.inputs[: draft.num_entering], draft.inputs[draft.num_entering :]
    return tuple(map(empty, first)), {node.name: empty(node) for node in others}
