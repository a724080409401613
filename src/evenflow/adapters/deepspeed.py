"""DeepSpeed: any cut, and any number of recomputing layers in each stage, for a `PipelineModule`.

`PipelineModule` takes no list of stages, but it can deal out evenly the entries whose class has a certain name, and of
all even cuts it takes the one that cuts latest. So the first entry of every stage gets such a name, which makes the cut
exact. Only the name: the module that is made is the same, and so are the numbers of the entries, which are part of the
names of parameters and of checkpoints. Layers that recompute run through DeepSpeed's own checkpoint function.
"""

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evenflow.adapters.stage_counts import check_entries, given_plan, stage_counts
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Plan

PARTITION_METHOD = "type:^StageMarker_"
"""What `PipelineModule` needs as its `partition_method`."""


def planned_layers(layers: Sequence[Any], plan: Plan | Path | str, *, head: int, tail: int) -> list[Any]:
    """Return the layers of a `PipelineModule` with the stages and the recomputation of a plan, or of a plan file.

    Entries are modules, layer specs or functions. The first `head` of them come before the body layers that the plan
    deals out, and the last `tail` after these; both are not recomputed. The module needs `PARTITION_METHOD`, as many
    stages as the plan has ranks, and no `activation_checkpoint_interval`.

    Raises:
        InputError: a plan that DeepSpeed cannot run, or with another number of body layers.
    """
    plan = given_plan(plan)
    if plan.num_chunks > 1:
        raise InputError(value=plan.num_chunks, rule=_("must be 1 for DeepSpeed"), place="chunks")
    counts, recomputed = stage_counts(plan, title="DeepSpeed")
    check_entries(len(layers), counts, head=head, tail=tail)
    return staged(list(layers), counts, recomputed, head=head, tail=tail)


def source() -> str:
    """Return the text of `staged`, which needs nothing of evenflow."""
    return inspect.getsource(staged)


def staged(entries: list[Any], layers: list[int], recomputed: list[int], *, head: int, tail: int) -> list[Any]:
    """Return the entries of a PipelineModule; the first one of every stage has StageMarker_ before its name.

    Stage s has the next layers[s] entries, of which the first recomputed[s] recompute; the first stage also has the
    first `head` entries, and the last stage the last `tail`.
    """
    import copy
    import functools

    import torch
    from deepspeed.pipe import LayerSpec
    from deepspeed.runtime.activation_checkpointing.checkpointing import non_reentrant_checkpoint

    def recomputing(entry: Any) -> Any:
        if isinstance(entry, LayerSpec):  # the module is made later, on the rank that has it
            spec = copy.copy(entry)
            spec.build = lambda log=False: recomputing(entry.build(log))
            return spec
        if not isinstance(entry, torch.nn.Module):
            return functools.partial(non_reentrant_checkpoint, entry)
        entry.forward = functools.partial(non_reentrant_checkpoint, entry.forward)
        return entry

    def marked(entry: Any) -> Any:
        if not isinstance(entry, (LayerSpec, torch.nn.Module)):
            function: Any = functools.partial(entry)
            function.__name__ = "StageMarker_function"
            return function
        name = getattr(entry, "typename", type(entry)).__name__
        marker = type(f"StageMarker_{name}", (torch.nn.Module,), {})
        spec = copy.copy(entry) if isinstance(entry, LayerSpec) else LayerSpec(marker)
        spec.typename = marker  # which is only looked at for its name
        spec.build = entry.build if isinstance(entry, LayerSpec) else lambda log=False: entry
        return spec

    counts = list(layers)
    counts[0] += head
    counts[-1] += tail
    if len(entries) != sum(counts) or 0 in counts:
        raise ValueError(f"{len(entries)} entries must be {counts}, one or more in each stage, head and tail included")
    result = list(entries)
    first = 0
    for stage, count in enumerate(counts):
        begin = first + head if stage == 0 else first
        for index in range(begin, begin + recomputed[stage]):
            result[index] = recomputing(result[index])
        result[first] = marked(result[first])
        first += count
    return result
