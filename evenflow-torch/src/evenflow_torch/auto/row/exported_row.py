"""Turns any module that torch exports into a row of layers, cut where a single tensor crosses.

torch is imported at the top: import this module only where a module is at hand.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import pairwise, takewhile
from typing import Any

import torch
from torch import fx, nn

from evenflow.errors import InputError
from evenflow.language import _
from evenflow_torch.auto.row.crossings import Cut, DataFlow, call_stack, data_flow, find_cuts
from evenflow_torch.auto.row.even_layers import Seam
from evenflow_torch.auto.row.exported import export_forward
from evenflow_torch.auto.row.layer_groups import GraphPiece, Span, group_layers
from evenflow_torch.auto.row.segments import SegmentDraft, draft_segment
from evenflow_torch.auto.trace.capture import capture
from evenflow_torch.auto.trace.layer_stack import differentiable
from evenflow_torch.models.parts import ModelRow, Part


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
    seams = [Seam(depth=cut.depth, size_bytes=cut.size_bytes) for cut in cuts]
    pieces = _pieces(flow, cuts)
    if not any(piece.is_trained for piece in pieces):
        raise InputError(
            value=type(model).__name__,
            rule=_("must use a parameter of its own that requires a gradient"),
            place="model",
        )
    grouping = group_layers(pieces, seams, most_even_layers=most_even_layers)
    spans = [span for span in (grouping.head, *grouping.body, grouping.tail) if span is not None]
    layers = _layers(model, flow, [draft_segment(flow, *_ends(cuts, span)) for span in spans])
    return ModelRow(
        name=type(model).__name__,
        head=tuple(layers[:1]) if grouping.head else (),
        body=tuple(layers[grouping.head is not None : len(layers) - (grouping.tail is not None)]),
        tail=tuple(layers[-1:]) if grouping.tail else (),
    )


def _ends(cuts: Sequence[Cut], span: Span) -> tuple[Cut | None, Cut | None]:
    first, end = span
    return (cuts[first - 1] if first else None, cuts[end - 1] if end <= len(cuts) else None)


def _pieces(flow: DataFlow, cuts: Sequence[Cut]) -> list[GraphPiece]:
    """Return the pieces between cuts with their forward and backward work, which is counted once for equal pieces."""
    known: dict[Hashable, GraphPiece] = {}
    pieces = []
    for before, after in pairwise((None, *cuts, None)):
        draft = draft_segment(flow, before, after)
        key = draft.key(flow)
        if key not in known:
            is_trained = any(flow.exported.tensors[source].requires_grad for source in draft.tensors)
            known[key] = GraphPiece(
                key=len(known), flops=_flops(flow, draft) if is_trained else 0, is_trained=is_trained
            )
        pieces.append(known[key])
    return pieces


def _flops(flow: DataFlow, draft: SegmentDraft) -> int:
    inputs, named = _inputs(draft)
    module = draft.module(flow, [node.target for node in draft.tensors.values()])
    return sum(operator.cost.flops for operator in capture(module, differentiable(inputs), named).operators)


def _layers(model: nn.Module, flow: DataFlow, drafts: Sequence[SegmentDraft]) -> list[Part]:
    """Turn drafts into layers; equal layers name their parameters inside as the first of them does."""
    used = Counter(path for draft in drafts for path in {path for node in draft.operators for path in call_stack(node)})
    names_inside: dict[Hashable, list[str]] = {}
    layers = []
    for position, draft in enumerate(drafts):
        full = _full_names(flow, draft)
        root = _common_path([name.rpartition(".")[0] for name in full if name])
        own = [name.removeprefix(f"{root}.") or f"buffer_{place}" for place, name in enumerate(full)]
        inside = names_inside.setdefault(draft.key(flow), own)
        modules = _modules(draft, used)
        paths = modules or tuple(filter(None, full))
        inputs, named_inputs = _inputs(draft)
        layers.append(
            Part(
                name=f"{type(model.get_submodule(modules[0])).__name__}.{modules[0]}"
                if len(modules) == 1
                else " + ".join(paths),
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


def _full_names(flow: DataFlow, draft: SegmentDraft) -> list[str]:
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


def _modules(draft: SegmentDraft, used: Counter[str]) -> tuple[str, ...]:
    """Return the outermost modules that run wholly in this layer; none where the model calls no modules."""
    outermost = (next((path for path in call_stack(node) if path and used[path] == 1), "") for node in draft.operators)
    return tuple(dict.fromkeys(path for path in outermost if path))


def _inputs(draft: SegmentDraft) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a draft's positional and named inputs, on the meta device."""

    def empty(node: fx.Node) -> torch.Tensor:
        value = node.meta["val"]
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")

    first, *others = draft.inputs
    return (empty(first),), {node.name: empty(node) for node in others}
