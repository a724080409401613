"""Paddle: any cut, with chunks too, and any number of recomputing layers in each stage, for a `PipelineLayer`.

With one chunk for each rank `PipelineLayer` takes a list of cuts. With several it only deals out evenly the layers
whose class has a certain name, and cuts after them. So an identity layer as the last entry of every stage makes the cut
exact. Layers that recompute run through Paddle's own recompute function.
"""

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evenflow.adapters.stage_counts import check_entries, given_plan, stage_counts
from evenflow.model import Plan


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
    counts, recomputed = stage_counts(plan, title="Paddle")
    check_entries(len(layers), plan.num_layers, head=head, tail=tail)
    return staged(list(layers), counts, recomputed, chunks=plan.num_chunks, head=head, tail=tail)


def source() -> str:
    """Return the text of `staged`, which needs nothing of evenflow."""
    return inspect.getsource(staged)


def staged(
    entries: list[Any], layers: list[int], recomputed: list[int], *, chunks: int, head: int, tail: int
) -> tuple[list[Any], list[int] | str]:
    """Return the entries and the seg_method of a PipelineLayer.

    Stage s gets the next layers[s] entries, of which the first recomputed[s] recompute; the first stage also gets the
    first `head` entries, and the last stage the last `tail`. With several chunks, a StageEnd ends every stage.
    """
    import copy
    import functools

    import paddle
    from paddle.distributed.fleet.meta_parallel import LayerDesc
    from paddle.distributed.fleet.utils import recompute

    class StageEnd(paddle.nn.Layer):
        def forward(self, inputs: Any) -> Any:
            return inputs

    def recomputing(entry: Any) -> Any:
        if isinstance(entry, LayerDesc):  # the layer is made later, on the rank that has it
            description = copy.copy(entry)
            description.build_layer = lambda **more: recomputing(entry.build_layer(**more))
            return description
        if not isinstance(entry, paddle.nn.Layer):
            return functools.partial(recompute, entry, use_reentrant=False)
        entry.forward = functools.partial(recompute, entry.forward, use_reentrant=False)
        return entry

    if len(entries) != head + sum(layers) + tail:
        raise ValueError(
            f"{len(entries)} entries are not {head} + {sum(layers)} + {tail}: head, layers of the plan, tail"
        )
    result = list(entries[:head])
    cuts = [0]
    begin = head
    for stage, (count, again) in enumerate(zip(layers, recomputed, strict=True)):
        cell = entries[begin : begin + count]
        begin += count
        result += [recomputing(entry) for entry in cell[:again]] + cell[again:]
        if stage == len(layers) - 1:
            result += entries[begin:]
        if chunks > 1:
            result.append(LayerDesc(StageEnd))
        cuts.append(len(result))
    return result, "layer:^StageEnd$" if chunks > 1 else cuts
