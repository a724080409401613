"""Paddle: any cut, with chunks too, and any number of recomputing layers in each stage, for a `PipelineLayer`.

Layers recompute whole, or their attention alone, the sub-layer `self_attn`.

With one chunk for each rank `PipelineLayer` takes a list of cuts. With several it only deals out evenly the layers
whose class has a certain name, and cuts after them. So the last entry of every stage gets such a name, which makes the
cut exact. Only the name: the layer that is made is the same, and so are the numbers of the entries. Layers that
recompute run through Paddle's own recompute function.
"""

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evenflow.adapters.stage_counts import check_entries, counts_of_kind, given_plan, stage_counts
from evenflow.model import Plan
from evenflow.predict.training import FULL_ATTENTION


def planned_layers(
    layers: Sequence[Any], plan: Plan | Path | str, *, head: int, tail: int
) -> tuple[list[Any], list[int] | str]:
    """Return the layers and the `seg_method` of a `PipelineLayer` that has the stages and the recomputation of a plan.

    Entries are layers, layer descriptions or functions. The first `head` of them come before the body layers that the
    plan deals out, and the last `tail` after these; both are not recomputed. The `PipelineLayer` needs the number of
    chunks as its `num_virtual_pipeline_stages`, and no `recompute_interval`. `plan` may be the path of a plan file.

    Raises:
        InputError: a plan that Paddle cannot run, or with another number of body layers.
    """
    plan = given_plan(plan)
    counts, recomputed = stage_counts(plan, title="Paddle", beside=(FULL_ATTENTION,))
    check_entries(len(layers), counts, head=head, tail=tail)
    attention = counts_of_kind(plan, FULL_ATTENTION)
    return staged(list(layers), counts, recomputed, attention, chunks=plan.num_chunks, head=head, tail=tail)


def source() -> str:
    """Return the text of `staged`, which needs nothing of evenflow."""
    return inspect.getsource(staged)


def staged(
    entries: list[Any],
    layers: list[int],
    recomputed: list[int],
    attention: list[int] | None = None,
    *,
    chunks: int,
    head: int,
    tail: int,
) -> tuple[list[Any], list[int] | str]:
    """Return the entries and the seg_method of a PipelineLayer.

    Stage s has the next layers[s] entries, of which the first recomputed[s] recompute, and the next attention[s] their
    attention, the sub-layer self_attn; the first stage also has the first `head` entries, and the last stage the last
    `tail`. With several chunks, the last entry of every stage has StageEnd_ before its name.
    """
    import copy
    import functools

    import paddle
    from paddle.distributed.fleet.meta_parallel import LayerDesc
    from paddle.distributed.fleet.utils import recompute

    def recomputing(entry: Any, part: str = "") -> Any:
        if isinstance(entry, LayerDesc):  # the layer is made later, on the rank that has it
            description = copy.copy(entry)
            description.build_layer = lambda **more: recomputing(entry.build_layer(**more), part)
            return description
        if part:
            inner = getattr(entry, part, None)
            if inner is None:
                raise ValueError(f"{type(entry).__name__} must have the sub-layer {part}, which recomputes")
            inner.forward = functools.partial(recompute, inner.forward, use_reentrant=False)
            return entry
        if not isinstance(entry, paddle.nn.Layer):
            return functools.partial(recompute, entry, use_reentrant=False)
        entry.forward = functools.partial(recompute, entry.forward, use_reentrant=False)
        return entry

    def marked(entry: Any) -> Any:
        if not isinstance(entry, (LayerDesc, paddle.nn.Layer)):
            function: Any = functools.partial(entry)
            function.__name__ = "StageEnd_function"
            return function
        name = getattr(entry, "layer_func", type(entry)).__name__
        marker = type(f"StageEnd_{name}", (paddle.nn.Layer,), {})
        description = copy.copy(entry) if isinstance(entry, LayerDesc) else LayerDesc(marker)
        description.using_layer_spec = False
        description.layer_func, description.inputs = marker, ()  # which are only looked at for their names
        description.build_layer = entry.build_layer if isinstance(entry, LayerDesc) else lambda **more: entry
        return description

    counts = list(layers)
    counts[0] += head
    counts[-1] += tail
    if len(entries) != sum(counts) or 0 in counts:
        raise ValueError(f"{len(entries)} entries must be {counts}, one or more in each stage, head and tail included")
    result = list(entries)
    cuts = [0]
    for stage, count in enumerate(counts):
        begin = cuts[-1] + head if stage == 0 else cuts[-1]
        end = begin + recomputed[stage]
        for index in range(begin, end):
            result[index] = recomputing(result[index])
        for index in range(end, end + (attention[stage] if attention else 0)):
            result[index] = recomputing(result[index], "self_attn")
        cuts.append(cuts[-1] + count)
        if chunks > 1:
            result[cuts[-1] - 1] = marked(result[cuts[-1] - 1])
    return result, "layer:^StageEnd_" if chunks > 1 else cuts
