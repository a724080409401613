"""Degrees in the settings of Megatron-LM, which frameworks built on it take from YAML or as overrides.

A setting has the name of a field of Megatron's configuration, which recipes may set otherwise: all are written.
"""

from collections.abc import Mapping

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Plan
from evenflow.predict.training import Degrees, Sharding
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.megatron_family.flags import PAIRED
from evenflow.targets.megatron_family.settings import Setting

EXCHANGES: Mapping[str, str] = {"ring": "p2p", "all-gather": "allgather", "all-to-all": "a2a"}
"""Megatron's words for how context ranks exchange."""
FULLY_SHARED: Mapping[Sharding, str] = {
    Sharding.GRADIENTS: "optim_grads",
    Sharding.PARAMETERS: "optim_grads_params",
}
"""What Megatron-FSDP shares out, by the stage of ZeRO."""
_LAYOUT = "pipeline_model_parallel_layout"


def degree_settings(planned: PlannedDegrees) -> dict[str, Setting]:
    """Return what splits the model over the devices of a stage.

    How experts are split is there where they are distributed, or their split is given: a model without has none.
    """
    degrees = planned.degrees
    settings: dict[str, Setting] = {
        "tensor_model_parallel_size": degrees.tensor,
        "context_parallel_size": degrees.context,
    }
    if degrees.context > 1 and degrees.context_exchange != "ring":
        settings["cp_comm_type"] = EXCHANGES[degrees.context_exchange]
    settings["expert_model_parallel_size"] = degrees.expert
    split = expert_split(degrees)
    if split is not None:
        settings["expert_tensor_parallel_size"] = split
    if planned.expert_capacity is not None:
        settings["moe_expert_capacity_factor"] = planned.expert_capacity
    settings["sequence_parallel"] = degrees.sequence_parallel and degrees.tensor > 1
    return settings


def check_pairs(plan: Plan, planned: PlannedDegrees) -> None:
    """Raise InputError where forwards run beside backwards without experts on several devices."""
    if plan.schedule in PAIRED and planned.degrees.expert == 1:
        raise InputError(
            value=planned.degrees.expert,
            rule=_("must be at least 2 under {schedule}", schedule=plan.schedule),
            place=_("the plan, expert"),
            remedy=_("plan again with another schedule"),
        )


def batch_settings(planned: PlannedDegrees) -> dict[str, Setting]:
    """Return the sequences of a microbatch and of a step."""
    return {"micro_batch_size": planned.microbatch, "global_batch_size": planned.global_batch}


def without_layout(settings: Mapping[str, Setting], plan: Plan) -> dict[str, Setting]:
    """Return settings of a plan with a layout only where there is a pipeline."""
    return {key: None if key == _LAYOUT and plan.num_ranks == 1 else value for key, value in settings.items()}


def shares_optimizer(planned: PlannedDegrees, title: str) -> bool:
    """Return whether the optimizer's state is shared out; raises InputError where more is, or parts of the devices."""
    sharding = planned.degrees.sharding
    if sharding not in (Sharding.NOTHING, Sharding.OPTIMIZER):
        raise InputError(
            value=f"ZeRO-{sharding}",
            rule=_("must be ZeRO-1 or data parallelism for {title}", title=title),
            place=_("the plan"),
            remedy=_("plan again with --zero 1 (tune: --fix zero=1), or write it for megatron"),
        )
    return sharding is Sharding.OPTIMIZER


def check_no_pipeline(planned: PlannedDegrees) -> None:
    """Raise InputError where gradients or parameters are shared out beside a pipeline."""
    degrees = planned.degrees
    if degrees.pipeline > 1:
        raise InputError(
            value=f"ZeRO-{degrees.sharding}",
            rule=_("must be ZeRO-1 beside a pipeline: Megatron-LM shares out only the optimizer's state there"),
            place=_("the plan"),
            remedy=_("plan again with --zero 1 (tune: --fix zero=1), or run the plan with evenflow run"),
        )


def sharding_settings(planned: PlannedDegrees) -> dict[str, Setting]:
    """Return what data-parallel devices share out; raises InputError as `check_no_pipeline` does."""
    sharding = planned.degrees.sharding
    settings: dict[str, Setting] = {"use_distributed_optimizer": sharding is not Sharding.NOTHING}
    if planned.replicas > 1:
        settings["num_distributed_optimizer_instances"] = planned.replicas
    if sharding in FULLY_SHARED:
        check_no_pipeline(planned)
        settings |= {"use_megatron_fsdp": True, "data_parallel_sharding_strategy": FULLY_SHARED[sharding]}
    return settings


def expert_split(degrees: Degrees) -> int | None:
    """Return the ways that the matrices of an expert are split; None where there is nothing to say of experts."""
    return degrees.expert_tensor if degrees.expert_tensor is not None else 1 if degrees.expert > 1 else None


def setting_notes(planned: PlannedDegrees) -> tuple[str, ...]:
    """Return on how many devices to start, and in which order, and what goes with a capacity of experts."""
    degrees = planned.degrees
    start = _(
        "start it on {devices} devices, node after node: data parallel over {data}",
        devices=degrees.devices,
        data=degrees.data,
    )
    if planned.expert_capacity is None:
        return (start,)
    capacity = _(
        "a capacity of experts goes with --moe-token-dispatcher-type alltoall and with a "
        "--moe-router-load-balancing-type of aux_loss, seq_aux_loss or none; leave --moe-token-drop-policy at "
        "probs, and --moe-pad-expert-input-to-capacity out, which fills up every expert"
    )
    return (start, capacity)
