"""The two-level plan of any module that torch exports, or of a row of modules."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from evenflow.cluster import A100, FEWEST_AXES, Accelerator, Cluster
from evenflow.errors import InputError
from evenflow.language import _
from evenflow_torch.auto.batch_sizes import plan_batches
from evenflow_torch.auto.deadline import Deadline
from evenflow_torch.auto.fixing.fixed import Fixed
from evenflow_torch.auto.planner import AutoPlan, plan_row
from evenflow_torch.auto.sharding.overlap import USUAL, Overlap
from evenflow_torch.auto.stages.request import ADAM_STATE_BYTES, NUM_MICROBATCHES, TIME_LIMIT_S, TwoLevelRequest
from evenflow_torch.models.exported.layer_groups import EVEN_LAYERS_PER_DEVICE
from evenflow_torch.models.parts import ModelRow

if TYPE_CHECKING:
    import torch
    from torch import nn

Batch: TypeAlias = "torch.Tensor | tuple[object, ...] | dict[str, object]"
"""One microbatch: what the model takes."""


def plan(
    model: "nn.Module | Sequence[nn.Module]",
    example_batch: "Batch | Callable[[int], Batch]",
    cluster: Cluster,
    *,
    num_microbatches: int | None = None,
    global_batch: int | None = None,
    head: "nn.Module | None" = None,
    tail: "nn.Module | None" = None,
    accelerator: Accelerator | None = A100,
    optimizer_bytes_per_parameter: int = ADAM_STATE_BYTES,
    overlap: Overlap = USUAL,
    most_axes: int = FEWEST_AXES,
    schedule: str = "1f1b",
    fixed: Fixed | None = None,
    expert_capacity: float | None = None,
    time_limit_s: float = TIME_LIMIT_S,
) -> AutoPlan:
    """Return the stages of a model, their submeshes and the sharding of every operator.

    `model` is any module that torch.export takes, and is cut where one tensor crosses (`exported_row`); or a row of
    layers, each of which takes what the one before hands over: an ``nn.Sequential``, an ``nn.ModuleList`` or a list,
    where `head` and `tail` go with the first and the last of them. `example_batch` is one microbatch for all devices of
    a stage together: a tensor, for other modules than rows also a tuple of arguments or a dict of keywords. Everything
    may be on the meta device. A step has `num_microbatches` of them, 16 if nothing is said.

    With `global_batch` instead, the samples of a step, size and number of microbatches are chosen together:
    `example_batch` is then a function that returns a microbatch of so many samples.

    The whole answer takes `time_limit_s` seconds: what there is no time for is left out, and
    told in a note. The other arguments are those of `TwoLevelRequest`.

    Raises:
        InputError: a model or a layer that cannot be traced; no time for any plan.
    """
    request = TwoLevelRequest(
        cluster=cluster,
        num_microbatches=num_microbatches or NUM_MICROBATCHES,
        accelerator=accelerator,
        optimizer_bytes_per_parameter=optimizer_bytes_per_parameter,
        overlap=overlap,
        most_axes=most_axes,
        schedule=schedule,
        fixed=fixed or Fixed(),
        expert_capacity=expert_capacity,
        deadline=Deadline.after(time_limit_s),
    )
    most_layers = EVEN_LAYERS_PER_DEVICE * cluster.num_devices

    def row(batch: Any) -> ModelRow:
        return _row(model, batch, head=head, tail=tail, most_layers=most_layers)

    if callable(example_batch) != (global_batch is not None):
        rule = _("must be one microbatch where global_batch is not given")
        if global_batch is not None:
            rule = _("must be a function from samples to a microbatch where global_batch is given")
        raise InputError(value=type(example_batch).__name__, rule=rule, place="example_batch")
    if global_batch is None:
        return plan_row(row(example_batch), request)
    if num_microbatches is not None:
        raise InputError(
            value=num_microbatches,
            rule=_("must not be given beside global_batch"),
            place="num_microbatches",
            remedy=_("leave one of the two out"),
        )
    make: Any = example_batch
    return plan_batches(lambda samples: row(make(samples)), request, global_batch=global_batch)


def _row(
    model: "nn.Module | Sequence[nn.Module]",
    batch: Any,
    *,
    head: "nn.Module | None",
    tail: "nn.Module | None",
    most_layers: int,
) -> ModelRow:
    """Return the model as a row of layers with the inputs of each."""
    from evenflow_torch.models.rows import is_row, row_with_inputs

    if is_row(model):
        return row_with_inputs(model, batch, head=head, tail=tail)
    if head is not None or tail is not None:
        raise InputError(
            value=type(model).__name__,
            rule=_("must be an nn.Sequential, an nn.ModuleList or a list of modules where head or tail are given"),
            place="model",
            remedy=_("leave them out where they are parts of this module"),
        )
    from evenflow_torch.models.exported.exported_row import exported_row

    return exported_row(model, batch, most_even_layers=most_layers)
