"""Degrees in the flags of Megatron-LM."""

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Plan
from evenflow.predict.training import Sharding
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.megatron_family.degrees.degree_rules import can_offload
from evenflow.targets.megatron_family.degrees.degree_settings import (
    EXCHANGES,
    FULLY_SHARED,
    check_no_pipeline,
    expert_split,
    setting_notes,
)
from evenflow.targets.megatron_family.flags import LAYOUT_FLAG, plan_flags


def degree_flags(planned: PlannedDegrees) -> dict[str, tuple[str, ...]]:
    """Return the flags for everything but the pipeline.

    Raises:
        InputError: gradients or parameters shared out beside a pipeline, which Megatron-FSDP does not do.
    """
    degrees = planned.degrees
    flags: dict[str, tuple[str, ...]] = {
        "--tensor-model-parallel-size": (str(degrees.tensor),),
        "--context-parallel-size": (str(degrees.context),),
        "--micro-batch-size": (str(planned.microbatch),),
        "--global-batch-size": (str(planned.global_batch),),
        "--seq-length": (str(planned.sequence),),
    }
    if degrees.sequence_parallel and degrees.tensor > 1:
        flags["--sequence-parallel"] = ()
    if degrees.context > 1 and degrees.context_exchange != "ring":
        flags["--cp-comm-type"] = (EXCHANGES[degrees.context_exchange],)
    split = expert_split(degrees)
    if split is not None:
        flags["--expert-model-parallel-size"] = (str(degrees.expert),)
        flags["--expert-tensor-parallel-size"] = (str(split),)
    if planned.expert_capacity is not None:
        flags["--moe-expert-capacity-factor"] = (str(planned.expert_capacity),)
    if degrees.sharding is not Sharding.NOTHING or degrees.optimizer_offload:
        flags["--use-distributed-optimizer"] = ()
    if degrees.optimizer_offload:
        _check_offload(planned)
        flags["--optimizer-cpu-offload"] = ()
        flags["--optimizer-offload-fraction"] = (f"{degrees.optimizer_offload:g}",)
        flags["--overlap-cpu-optimizer-d2h-h2d"] = ()
        flags["--use-precision-aware-optimizer"] = ()
    if planned.replicas > 1:
        flags["--num-distributed-optimizer-instances"] = (str(planned.replicas),)
    if degrees.sharding in FULLY_SHARED:
        check_no_pipeline(planned)
        flags["--use-megatron-fsdp"] = ()
        flags["--data-parallel-sharding-strategy"] = (FULLY_SHARED[degrees.sharding],)
        flags["--no-gradient-accumulation-fusion"] = ()
        flags["--ckpt-format"] = ("fsdp_dtensor",)
    return flags


def _check_offload(planned: PlannedDegrees) -> None:
    """Refuse state on the host that Megatron-LM would share out otherwise."""
    if not can_offload(planned.degrees):
        rule = _("must be 1 where the host keeps the optimizer's state")
        remedy = _("plan again with --zero 1 (tune: --fix zero=1)")
        raise InputError(value=planned.degrees.sharding.value, rule=rule, place="zero", remedy=remedy)


def older_degree_flags(planned: PlannedDegrees, *, has_axes: bool) -> dict[str, tuple[str, ...]]:
    """Return the flags for everything but the pipeline of a Megatron-LM before core 0.13, or of one before core.

    `has_axes` says whether it distributes sequences, experts and the optimizer's state, as core does.

    Raises:
        InputError: something that it has no flag for.
    """
    _check_older(planned, has_axes=has_axes)
    flags = degree_flags(planned)
    flags.pop("--expert-tensor-parallel-size", None)
    if planned.degrees.context == 1:
        del flags["--context-parallel-size"]
    return flags


def _check_older(planned: PlannedDegrees, *, has_axes: bool) -> None:
    degrees = planned.degrees
    known = (Sharding.NOTHING, Sharding.OPTIMIZER) if has_axes else (Sharding.NOTHING,)
    split = expert_split(degrees)
    refused = {
        f"ZeRO-{degrees.sharding}": degrees.sharding not in known,
        f"expert_tensor {split}": split not in (None, degrees.tensor),
        f"context {degrees.context}": degrees.context > 1 and not has_axes,
        f"context_exchange {degrees.context_exchange}": degrees.context > 1 and degrees.context_exchange != "ring",
        f"expert {degrees.expert}": degrees.expert > 1 and not has_axes,
        f"replicas {planned.replicas}": planned.replicas > 1,
        f"expert_capacity {planned.expert_capacity}": planned.expert_capacity is not None,
        "sequence_parallel": degrees.sequence_parallel and degrees.tensor > 1 and not has_axes,
    }
    value = next((value for value, is_refused in refused.items() if is_refused), None)
    if value is not None:
        raise InputError(
            value=value,
            rule=_("must be what this version of Megatron-LM has a flag for"),
            place=_("the plan"),
            remedy=_("write it for the newest version, or plan again with --version-of"),
        )


def parallel_flags(plan: Plan, planned: PlannedDegrees) -> dict[str, tuple[str, ...]]:
    """Return the flags of the pipeline, with a layout only where there is one, and of all other degrees.

    Raises:
        InputError: as `degree_flags` does.
    """
    of_plan = {flag: values for flag, values in plan_flags(plan).items() if flag != LAYOUT_FLAG or plan.num_ranks > 1}
    return {**of_plan, **degree_flags(planned)}


def degree_notes(planned: PlannedDegrees) -> tuple[str, ...]:
    """Return what is easily wrong beside the flags."""
    degrees = planned.degrees
    start, *others = setting_notes(planned)
    if degrees.tensor > 1 and not degrees.sequence_parallel:
        others.insert(0, _("leave out --sequence-parallel: the plan keeps whole what lies between products"))
    return (start, *others)
