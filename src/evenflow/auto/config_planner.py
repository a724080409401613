"""The two-level plan of a decoder from its configuration alone: nothing is loaded and no memory is needed."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from evenflow.auto.deadline import Deadline
from evenflow.auto.fixing.fixed import Fixed
from evenflow.auto.planner import AutoPlan, plan_row
from evenflow.auto.sharding.overlap import USUAL, Overlap
from evenflow.auto.stages.request import TIME_LIMIT_S, TwoLevelRequest, silent
from evenflow.cluster import Accelerator, Cluster, Dtype, accelerator_named, parse_dtype
from evenflow.errors import InputError
from evenflow.fields import Fields, as_fields
from evenflow.language import _
from evenflow.torch_model.optimizers import state_bytes


def plan_config(
    config: Fields | Mapping[str, object],
    cluster: Cluster,
    *,
    sequence: int,
    num_microbatches: int,
    microbatch: int | None = None,
    accelerator: str | Accelerator = "a100",
    efficiency: float | None = None,
    dtype: str = "bf16",
    optimizer: str = "adam",
    overlap: Overlap = USUAL,
    schedule: str = "1f1b",
    fixed: Fixed | None = None,
    time_limit_s: float = TIME_LIMIT_S,
    deadline: Deadline | None = None,
    processes: int = 1,
    name: str = "model",
    progress: Callable[[str], None] = silent,
) -> AutoPlan:
    """Return the two-level plan of the decoder that `config`, the contents of a ``config.json``, describes.

    A microbatch has `microbatch` sequences of `sequence` tokens for all devices of a stage together, by default one
    for each device of the cluster. Large matrix products reach the share `efficiency` of the peak of `accelerator`, or
    of `cluster` where that states its own; None: the accelerator's own share. `optimizer` is one of
    `evenflow.torch_model.optimizers.OPTIMIZERS`; a `deadline` stands for the time limit where the time began before
    this call; the other arguments are those of `evenflow.auto.plan`.

    Raises:
        InputError: a model that transformers does not build as a decoder, an unknown accelerator, dtype or optimizer,
            an efficiency that is no share.
    """
    from evenflow.torch_model.training_row import read_decoder

    deadline = deadline or Deadline.after(time_limit_s)
    number = parse_dtype(dtype)
    rates, origin = _rates(accelerator, efficiency, cluster, number)
    kept_bytes = state_bytes(optimizer, number.item_bytes)
    progress(_("building the model"))
    row = read_decoder(
        config if isinstance(config, Fields) else as_fields(dict(config), file=name),
        sequence=sequence,
        microbatch=microbatch or cluster.num_devices,
        dtype=number,
        name=name,
    )
    request = TwoLevelRequest(
        cluster=cluster,
        num_microbatches=num_microbatches,
        accelerator=rates,
        optimizer_bytes_per_parameter=kept_bytes,
        overlap=overlap,
        schedule=schedule,
        fixed=fixed or Fixed(),
        deadline=deadline,
        processes=processes,
    )
    found = plan_row(row, request, progress=progress)
    return replace(found, notes=(origin, *row.notes, *found.notes))


def _rates(
    given: str | Accelerator, efficiency: float | None, cluster: Cluster, dtype: Dtype
) -> tuple[Accelerator, str]:
    """Return the rates of one device, and where they come from, as a sentence."""
    known = accelerator_named(given) if isinstance(given, str) else given
    if dtype not in known.flops_per_s_of:
        known_dtypes = ", ".join(known.flops_per_s_of)
        raise InputError(
            value=str(dtype),
            rule=_(
                "must be a number format that {name} has a rate for: {known_dtypes}",
                name=known.name,
                known_dtypes=known_dtypes,
            ),
            place="dtype",
        )
    peak = cluster.peak_flops or known.rate(dtype)
    device = replace(known, flops_per_s_of={**known.flops_per_s_of, dtype: peak}).reaching(efficiency)
    return device, device.origin([dtype])
