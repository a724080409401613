"""The degrees of a two-level plan in the flags of Megatron-LM."""

from collections.abc import Mapping

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.training import Sharding
from evenflow.profiles.plan_degrees import PlannedDegrees

_FULLY: Mapping[Sharding, str] = {
    Sharding.GRADIENTS: "optim_grads",
    Sharding.PARAMETERS: "optim_grads_params",
}
"""What Megatron-FSDP shares out, by the stage of ZeRO."""


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
    if degrees.expert > 1:
        flags["--expert-model-parallel-size"] = (str(degrees.expert),)
        flags["--expert-tensor-parallel-size"] = ("1",)
    if planned.expert_capacity is not None:
        flags["--moe-expert-capacity-factor"] = (str(planned.expert_capacity),)
    if degrees.sharding is not Sharding.NOTHING:
        flags["--use-distributed-optimizer"] = ()
    if planned.replicas > 1:
        flags["--num-distributed-optimizer-instances"] = (str(planned.replicas),)
    if degrees.sharding in _FULLY:
        if degrees.pipeline > 1:
            raise InputError(
                value=f"ZeRO-{degrees.sharding}",
                rule=_("must be ZeRO-1 beside a pipeline: Megatron-LM shares out only the optimizer's state there"),
                place=_("the plan"),
                remedy=_("plan again with --fix zero=1, or run the plan with evenflow run"),
            )
        flags["--use-megatron-fsdp"] = ()
        flags["--data-parallel-sharding-strategy"] = (_FULLY[degrees.sharding],)
        flags["--no-gradient-accumulation-fusion"] = ()
        flags["--ckpt-format"] = ("fsdp_dtensor",)
    return flags


def degree_notes(planned: PlannedDegrees) -> tuple[str, ...]:
    """Return what is easily wrong beside the flags."""
    degrees = planned.degrees
    devices = degrees.devices
    notes = [
        _(
            "start it on {devices} devices, node after node: data parallel over {data}",
            devices=devices,
            data=degrees.data,
        )
    ]
    if degrees.tensor > 1 and not degrees.sequence_parallel:
        notes.append(_("leave out --sequence-parallel: the plan keeps whole what lies between products"))
    if planned.expert_capacity is not None:
        notes.append(
            _(
                "a capacity of experts goes with --moe-token-dispatcher-type alltoall and with a "
                "--moe-router-load-balancing-type of aux_loss, seq_aux_loss or none; leave --moe-token-drop-policy at "
                "probs, and --moe-pad-expert-input-to-capacity out, which fills up every expert"
            )
        )
    return tuple(notes)
